#!/bin/sh
# Installs Frith: takes the archive for this machine, checks its SHA-256, and copies what is in it below
# a prefix. It needs no compiler and no root, and changes no file of your shell.
set -eu

usage() {
    cat <<'END'
usage: sh install.sh [--from FOLDER|URL] [--prefix FOLDER]

  --from     where SHA256SUMS and the archives are: a folder, a file:// or an https:// address;
             the folder of this script unless given
  --prefix   where bin/frith and share/ go; ~/.local unless given
END
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

from=$(dirname "$0")
prefix=${HOME:+$HOME/.local}
while [ $# -gt 0 ]; do
    case $1 in
        --from | --prefix)
            [ $# -ge 2 ] || fail "$1 needs a value; --help says more"
            case $1 in
                --from) from=$2 ;;
                --prefix) prefix=$2 ;;
            esac
            shift 2
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *)
            usage >&2
            exit 2
            ;;
    esac
done
[ -n "$prefix" ] || fail "HOME is not set; say where to install with --prefix"
[ "$(uname -s)" = Linux ] || fail "Frith runs on Linux only, and this is $(uname -s)"
machine=$(uname -m)

# Fetches one file from where the archives are.
fetch() {
    case $from in
        https://*)
            if command -v curl >/dev/null; then
                curl --proto '=https' -fsSL -o "$2" "$from/$1"
            elif command -v wget >/dev/null; then
                wget --https-only -qO "$2" "$from/$1"
            else
                fail "curl or wget is needed to fetch $from/$1"
            fi
            ;;
        http://*) fail "$from is not encrypted; use https://" ;;
        file://*) cp "${from#file://}/$1" "$2" ;;
        *) cp "$from/$1" "$2" ;;
    esac || fail "cannot fetch $from/$1"
}

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fetch SHA256SUMS "$temporary/SHA256SUMS"
# A line is a digest, two spaces and a name; the name is ours, and so it has no folder.
line=$(grep -E "^[0-9a-f]{64}  frith-[0-9A-Za-z.+-]+-$machine-linux\.tar\.gz\$" "$temporary/SHA256SUMS") ||
    fail "there is no archive for $machine in $from"
[ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "$from has several archives for $machine"
archive=${line#*  }
fetch "$archive" "$temporary/$archive"
(cd "$temporary" && printf '%s\n' "$line" | sha256sum -c --status) ||
    fail "$archive is not what SHA256SUMS says; nothing was installed"

tar -xzf "$temporary/$archive" -C "$temporary" --no-same-owner
folder=$temporary/${archive%.tar.gz}
version=$("$folder/bin/frith" --version) ||
    fail "the program does not run here; it may need a newer glibc. Nothing was installed"

mkdir -p "$prefix/bin" "$prefix/share"
cp -R "$folder/share/." "$prefix/share/"
# One that runs keeps its file: the new one takes the name.
cp "$folder/bin/frith" "$prefix/bin/.frith.new"
mv -f "$prefix/bin/.frith.new" "$prefix/bin/frith"

echo "installed $version as $prefix/bin/frith"
case :$PATH: in
    *:"$prefix/bin":*) echo "next: frith init" ;;
    *) echo "it is not in your PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
