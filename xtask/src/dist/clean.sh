# Runs a script in a namespace that has nothing but the system's programs, an empty home, and the archive:
# no network, no user, no file of this workspace. usage: clean.sh FOLDER EMPTY-FOLDER SCRIPT, in `unshare`.
set -eu
dist=$1
root=$2
script=$3
mount -t tmpfs -o mode=0755 tmpfs "$root"
for folder in bin sbin lib lib64 usr; do
    if [ -L "/$folder" ]; then
        cp -P "/$folder" "$root/$folder"
    elif [ -d "/$folder" ]; then
        mkdir "$root/$folder"
        mount --rbind "/$folder" "$root/$folder"
    fi
done
# What was installed on this machine beside its packages is not there.
[ ! -d "$root/usr/local" ] || mount -t tmpfs tmpfs "$root/usr/local"
mkdir -p "$root/dev" "$root/proc" "$root/tmp" "$root/home/ada" "$root/dist"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --bind "$dist" "$root/dist"
exec env -i HOME=/home/ada PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" sh -euc "cd; $script"
