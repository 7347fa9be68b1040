use std::os::unix::fs::symlink;

use super::*;

fn profile(readable: &[&Path], writable: &[&Path]) -> Profile {
    let owned = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
    Profile {
        readable: owned(readable),
        writable: owned(writable),
        ..Profile::default()
    }
}

fn bind(path: &Path, writable: bool) -> Mount {
    Mount::Bind {
        path: path.to_owned(),
        kind: Kind::Folder,
        writable,
    }
}

#[test]
fn links_are_made_again_and_lead_to_what_is_really_there() {
    let home = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(home.path()).unwrap();
    let real = home.join("real/inner");
    fs::create_dir_all(&real).unwrap();
    symlink("real", home.join("one")).unwrap();
    symlink(home.join("one/inner"), home.join("two")).unwrap();
    let mounts = mounts(&profile(&[&home.join("two")], &[]), &[], &[]).unwrap();
    let two = Mount::Link {
        at: home.join("two"),
        to: real.clone(),
    };
    assert_eq!(mounts, [bind(&real, false), two]);
    let through = super::mounts(&profile(&[&home.join("one/inner")], &[]), &[], &[]).unwrap();
    let one = Mount::Link {
        at: home.join("one"),
        to: home.join("real"),
    };
    assert_eq!(through, [bind(&real, false), one]);
}

#[test]
fn what_is_inside_another_path_comes_after_it_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(home.path()).unwrap();
    let inner = home.join("inner");
    fs::create_dir(&inner).unwrap();
    let both = profile(&[&inner, &home], &[]);
    assert_eq!(mounts(&both, &[], &[]).unwrap(), [bind(&home, false)]);
    let inner_writable = profile(&[&home], &[&inner]);
    assert_eq!(
        mounts(&inner_writable, &[], &[]).unwrap(),
        [bind(&home, false), bind(&inner, true)]
    );
    let same = profile(&[&home], &[&home]);
    assert_eq!(mounts(&same, &[], &[]).unwrap(), [bind(&home, true)]);
}

#[test]
fn hidden_paths_are_covered_and_cannot_be_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(home.path()).unwrap();
    let inner = home.join("inner");
    fs::create_dir_all(inner.join("deep")).unwrap();
    let hidden = [inner.clone()];
    let covered = Mount::Hide {
        path: inner.clone(),
        kind: Kind::Folder,
    };
    assert_eq!(
        mounts(&profile(&[], &[&home]), &hidden, &[]).unwrap(),
        [bind(&home, true), covered]
    );
    for path in [inner.clone(), inner.join("deep")] {
        let error = mounts(&profile(&[&path], &[]), &hidden, &[]).unwrap_err();
        assert!(error.to_string().contains("hidden"), "{error}");
    }
}

#[test]
fn shown_paths_inside_hidden_ones_can_be_asked_for_alone() {
    let home = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(home.path()).unwrap();
    let (data, workspace) = (home.join("data"), home.join("data/workspace"));
    fs::create_dir_all(&workspace).unwrap();
    let (hidden, shown) = ([data.clone()], [workspace.clone()]);
    assert_eq!(
        mounts(&profile(&[], &[&workspace]), &hidden, &shown).unwrap(),
        [bind(&workspace, true)]
    );
    for paths in [
        vec![data.as_path()],
        vec![workspace.as_path(), home.as_path()],
    ] {
        let error = mounts(&profile(&paths, &[]), &hidden, &shown).unwrap_err();
        assert!(error.to_string().contains("hidden"), "{error}");
    }
}

#[test]
fn paths_that_cannot_be_given_are_named() {
    for (path, why) in [
        ("relative", "begin with /"),
        ("/", "everything"),
        ("/proc/self", "its own"),
        ("/dev/null", "its own"),
        ("/no/such/path", "make it"),
    ] {
        let error = mounts(&profile(&[Path::new(path)], &[]), &[], &[]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(path) && text.contains(why), "{text}");
    }
}
