use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

/// A user's folder with a project in it.
struct Scene {
    root: TempDir,
    place: Place,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let (home, folder) = (real.join("home"), real.join("home/project"));
        fs::create_dir_all(&folder).unwrap();
        let place = Place {
            folder,
            home: Some(home.clone()),
            path: vec![home.join("bin")],
        };
        Self { root, place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root
            .path()
            .canonicalize()
            .unwrap()
            .join("home")
            .join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn link(&self, name: &str, to: &Path) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    }

    fn resolve(&self, line: &str) -> Resolution<Resolved> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        self.place.resolve(&words)
    }

    /// What is started, and what that sees; paths below the user's folder.
    fn program(&self, line: &str) -> (String, Vec<String>) {
        let Resolved::Program(program) = self.resolve(line).unwrap() else {
            panic!("{line} is downloaded");
        };
        let home = format!("{}/", self.path("").display());
        let home = home.replace("//", "/");
        let short = |text: &str| text.replace(&home, "");
        let words: Vec<String> = program.words.iter().map(|it| short(it)).collect();
        let mut readable: Vec<String> = program
            .readable
            .iter()
            .map(|it| short(&it.display().to_string()))
            .collect();
        readable.sort();
        (words.join(" "), readable)
    }
}

fn both(words: &str, readable: &[&str]) -> (String, Vec<String>) {
    (
        words.to_owned(),
        readable.iter().map(|it| (*it).to_owned()).collect(),
    )
}

/// The environment of a project, with a Python that pyenv has installed.
#[test]
fn a_virtual_environment_needs_the_python_it_was_made_with() {
    let scene = Scene::new();
    let python = scene.file(".pyenv/versions/3.12.1/bin/python3", "");
    scene.file(".pyenv/versions/3.12.1/lib/python3.12/os.py", "");
    let home = python.parent().unwrap().display();
    scene.file(
        "project/.venv/pyvenv.cfg",
        &format!("home = {home}\nx = y\n"),
    );
    scene.link("project/.venv/bin/python", &python);
    let other = scene.file("other/src/x.py", "");
    let folder = other.parent().unwrap().display().to_string();
    scene.file("project/.venv/lib/python3.12/site-packages/x.pth", &folder);
    let needed = [".pyenv/versions/3.12.1", "other/src", "project/.venv"];
    let found = scene.program("./.venv/bin/python -m server");
    assert_eq!(found, both("project/.venv/bin/python -m server", &needed));
    // Its programs name it, and so does `uv run`.
    let python = scene.path("project/.venv/bin/python");
    scene.file(
        "project/.venv/bin/serve",
        &format!("#!{}\n", python.display()),
    );
    let path = scene.path("project");
    let found = scene.program(&format!("uv --directory {} run serve -v", path.display()));
    assert_eq!(found, both("project/.venv/bin/serve -v", &needed));
    let missing = scene.resolve("uv --directory /tmp run serve").unwrap_err();
    assert!(missing.contains("uv sync"), "{missing}");
}

#[test]
fn a_shim_of_pyenv_stands_for_the_version_of_the_folder() {
    let scene = Scene::new();
    for version in ["3.11.0", "3.12.1"] {
        scene.file(&format!(".pyenv/versions/{version}/bin/python3"), "");
        scene.file(
            &format!(".pyenv/versions/{version}/lib/python3.1/os.py"),
            "",
        );
    }
    let shim = scene.file(".pyenv/shims/python3", "#!/usr/bin/env bash\n");
    scene.file(".pyenv/version", "3.11.0\n");
    let line = format!("{} -c 1", shim.display());
    let (words, readable) = scene.program(&line);
    assert_eq!(words, ".pyenv/versions/3.11.0/bin/python3 -c 1");
    assert_eq!(readable, [".pyenv/versions/3.11.0"]);
    scene.file("project/.python-version", "3.12.1\n");
    assert_eq!(scene.program(&line).1, [".pyenv/versions/3.12.1"]);
}

/// A script is started by the Node that nvm has, which no folder of `PATH` shows.
#[test]
fn packages_of_a_project_are_run_from_there() {
    let scene = Scene::new();
    for version in ["v9.1.0", "v20.2.0"] {
        scene.file(&format!(".nvm/versions/node/{version}/bin/node"), "");
        scene.file(&format!(".nvm/versions/node/{version}/include/node/x"), "");
    }
    scene.file(
        "project/node_modules/@a/server-x/package.json",
        r#"{"bin": {"mcp-x": "dist/index.js"}}"#,
    );
    scene.file(
        "project/node_modules/@a/server-x/dist/index.js",
        "#!/usr/bin/env node\n",
    );
    let needed = [".nvm/versions/node/v20.2.0", "project/node_modules"];
    let started = ".nvm/versions/node/v20.2.0/bin/node \
                   project/node_modules/@a/server-x/dist/index.js --flag";
    for line in [
        "npx -y @a/server-x --flag",
        "npx -p @a/server-x@1.0 mcp-x --flag",
    ] {
        assert_eq!(scene.program(line), both(started, &needed), "{line}");
    }
    // A file of a project is run with what the project has.
    scene.file("project/package.json", "{}");
    scene.file("project/build/main.js", "");
    let found = scene.program("node build/main.js .");
    let started = ".nvm/versions/node/v20.2.0/bin/node project/build/main.js .";
    assert_eq!(
        found,
        both(started, &[".nvm/versions/node/v20.2.0", "project"])
    );
}

#[test]
fn what_runners_have_kept_is_taken_if_it_is_what_is_asked_for() {
    let scene = Scene::new();
    scene.file("bin/node", "");
    let kept = ".npm/_npx/1f/node_modules/x";
    scene.file(&format!("{kept}/package.json"), r#"{"bin": "x.js"}"#);
    scene.file(&format!("{kept}/x.js"), "#!/usr/bin/env node\n");
    scene.file(
        ".npm/_npx/1f/package.json",
        r#"{"_npx": {"packages": ["x@1.0"]}}"#,
    );
    for line in ["npx x", "npx x@latest", "npx x@1.0"] {
        assert_eq!(
            scene.program(line).0,
            format!("bin/node {kept}/x.js"),
            "{line}"
        );
    }
    assert!(matches!(scene.resolve("npx x@2"), Ok(Resolved::Package(_))));
    scene.file(".local/share/uv/tools/y/bin/y", "");
    scene.file(".local/share/uv/tools/y/pyvenv.cfg", "");
    let installed = both(
        ".local/share/uv/tools/y/bin/y a",
        &[".local/share/uv/tools/y"],
    );
    assert_eq!(scene.program("uvx y a"), installed);
    assert_eq!(scene.program("uv tool run y a"), installed);
    let Ok(Resolved::Package(package)) = scene.resolve("uvx --from y[z]>=2 --with w prog -v")
    else {
        panic!("another version is installed");
    };
    assert_eq!(package.name(), "y");
    assert_eq!(package.program(), "prog");
    assert_eq!(package.options, ["--with", "w"]);
    assert_eq!(package.args, ["-v"]);
}

/// A program in `~/.local/bin` does not show all that a user has in `~/.local`.
#[test]
fn an_installation_is_not_all_that_a_user_has() {
    let scene = Scene::new();
    scene.file("bin/python3", "");
    let script = scene.file(".local/bin/serve", "#!/usr/bin/env python3\n");
    scene.file(".local/lib/python3.11/site-packages/x.py", "");
    scene.file(".local/share/keyrings/secret", "");
    let program = scene.place.needs(&script, 0);
    let local = scene.path(".local");
    assert!(!program.contains(&local), "{program:?}");
    assert!(
        program.contains(&local.join("lib/python3.11")),
        "{program:?}"
    );
}

#[test]
fn what_cannot_be_started_is_said() {
    let scene = Scene::new();
    for (line, said) in [
        ("nothing", "`nothing` is not installed"),
        ("./nothing", "there is no program"),
        ("docker run x", "daemon"),
        ("npx --call x", "not known"),
        ("npx -y", "no package"),
        ("uvx --weird x", "not known"),
        ("uv pip list", "only `uv run`"),
    ] {
        let error = scene.resolve(line).unwrap_err();
        assert!(error.contains(said), "{line}: {error}");
    }
}
