//! One skill, as its folder has it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_wire::messages::skill::{SkillDefinition, SkillSource, SkillStatus};
use a2e_wire::{Object, Raw};
use canonical::Digest;
use serde_json::{Map, Value, json};

use super::front::{self, Form, Front};
use super::program::Program;
use crate::tool::Schema;

/// Bytes of the file that a skill is.
pub const MAX_SKILL: usize = 128 * 1024;

/// Files that go with a skill, bytes of all of them, and folders in folders.
pub const MAX_FILES: usize = 200;
/// Bytes of all files that go with a skill.
pub const MAX_FILE_BYTES: u64 = 32 << 20;
const MAX_DEPTH: usize = 8;

/// What a skill is called in its folder, the newer form first.
const NAMES: [(&str, Form); 2] = [("SKILL.md", Form::Agent), ("skill.md", Form::Plain)];

/// A skill.
#[derive(Debug, Clone)]
pub(super) struct Skill {
    pub(super) front: Front,
    pub(super) body: String,
    pub(super) folder: PathBuf,
    /// Where it is, below the folder of skills.
    pub(super) path: String,
    /// What goes with it, by its path below the skill's folder.
    pub(super) files: BTreeMap<String, Digest>,
    pub(super) input: Option<Arc<Schema>>,
    /// What its results must fit, if it says so.
    pub(super) output: Option<Arc<Schema>>,
    /// What runs when it is called, if not a model.
    pub(super) program: Option<Program>,
    /// All that is pinned.
    pub(super) text: String,
    /// Why it cannot be called.
    pub(super) blocked: Option<String>,
}

/// The file that makes a folder a skill.
pub(super) fn file_of(folder: &Path) -> Option<(PathBuf, Form)> {
    let mut found = NAMES.iter().map(|(name, form)| (folder.join(name), *form));
    found.find(|(file, _)| file.is_file())
}

impl Skill {
    /// Reads the skill of a folder; one that cannot be read is blocked, and says why.
    pub(super) fn read(folder: &Path, file: &Path, form: Form) -> Self {
        let name = name_of(folder);
        let path = format!("{name}/{}", name_of(file));
        match read(folder, file, form, &name) {
            Ok(skill) => Self { path, ..skill },
            Err(problem) => Self {
                front: Front {
                    name,
                    version: "1.0.0".to_owned(),
                    ..Front::default()
                },
                body: String::new(),
                folder: folder.to_owned(),
                path,
                files: BTreeMap::new(),
                input: None,
                output: None,
                program: None,
                text: String::new(),
                blocked: Some(problem),
            },
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.front.name
    }

    /// As agents see it: all but its instructions, which they get when they call it.
    pub(super) fn definition(&self) -> SkillDefinition<'static> {
        let front = &self.front;
        let words = |words: &[String]| words.iter().cloned().map(Cow::Owned).collect::<Vec<_>>();
        let raws = |words: &[String]| {
            let raws = words.iter().filter_map(|it| Raw::from_serialize(it).ok());
            Some(raws.collect::<Vec<_>>())
        };
        let object = |value: &Value| Object::from_serialize(value).unwrap_or_default();
        let mut tools = front.tools.clone();
        tools.extend(front.allowed.iter().cloned());
        SkillDefinition {
            name: front.name.clone().into(),
            version: front.version.clone().into(),
            description: front.description.clone().into(),
            triggers: words(&front.triggers),
            tools: raws(&tools),
            toolkits: raws(&front.toolkits),
            status: match self.blocked {
                Some(_) => SkillStatus::Blocked,
                None => SkillStatus::Published,
            },
            input_schema: object(&self.input_schema()),
            output_schema: object(&match front.output.is_null() {
                true => json!({"type": "object", "properties": {
                    "summary": {"type": "string"}, "findings": {"type": "array"},
                    "recommendations": {"type": "array"}}}),
                false => front.output.clone(),
            }),
            instructions: None,
            file_path: Some(self.path.clone().into()),
            llm_config: None,
            arguments: front.arguments.as_deref().map(words),
            when_to_use: front.when_to_use.clone().into(),
            argument_hint: front.argument_hint.clone().into(),
            source: SkillSource::Filesystem,
            category: front.category.clone().map(Into::into),
            tags: Some(words(&front.tags)),
            max_turns: front.max_turns,
            timeout_seconds: front.timeout_seconds,
            icon: front.icon.clone().map(Into::into),
            metadata: Some(object(&Value::Object(self.metadata()))),
        }
    }

    /// What arguments must fit.
    pub(super) fn input_schema(&self) -> Value {
        match self.front.input.is_null() {
            true => json!({"type": "object", "properties": {"args": {"type": "string"}}}),
            false => self.front.input.clone(),
        }
    }

    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = self.front.metadata.clone();
        if !self.files.is_empty() {
            let names: Vec<&String> = self.files.keys().collect();
            metadata.insert("files".to_owned(), json!(names));
        }
        if let Some(program) = &self.program {
            metadata.insert("run".to_owned(), json!(program.path()));
        }
        if let Some(reason) = &self.blocked {
            metadata.insert("reason".to_owned(), json!(reason));
        }
        metadata
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn read(folder: &Path, file: &Path, form: Form, name: &str) -> Result<Skill, String> {
    let text = limited(file, MAX_SKILL)?;
    let text = String::from_utf8(text).map_err(|_| "it is no UTF-8 text".to_owned())?;
    let text = text.replace("\r\n", "\n");
    let (front, body) = front::read(form, name, &text)?;
    let files = hashes(folder, file)?;
    let program = match &front.run {
        Some(path) => Some(Program::find(folder, path, &files)?),
        None => None,
    };
    let mut skill = Skill {
        body: body.to_owned(),
        front,
        folder: folder.to_owned(),
        path: String::new(),
        files,
        input: None,
        output: None,
        program,
        text: String::new(),
        blocked: None,
    };
    let schema = Schema::compile(&skill.input_schema());
    skill.input = Some(schema.map_err(|error| format!("`inputs`: {error}"))?);
    if !skill.front.output.is_null() {
        let checked = Schema::compile(&skill.front.output);
        let checked = checked.map_err(|error| format!("`outputs`: {error}"))?;
        skill.output = Some(checked);
    }
    skill.text = json!({"text": text, "files": skill.files.iter()
        .map(|(path, hash)| (path.clone(), hash.to_string()))
        .collect::<BTreeMap<_, _>>()})
    .to_string();
    Ok(skill)
}

/// All of a file; an error if that is too much.
pub(super) fn limited(file: &Path, most: usize) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let opened = File::open(file).map_err(|error| error.to_string())?;
    let read = opened.take(limit).read_to_end(&mut content);
    read.map_err(|error| error.to_string())?;
    match content.len() <= most {
        true => Ok(content),
        false => Err(format!("it has more than {most} bytes")),
    }
}

/// What goes with a skill.
fn hashes(folder: &Path, file: &Path) -> Result<BTreeMap<String, Digest>, String> {
    let mut paths = Vec::new();
    walk(folder, 0, &mut paths)?;
    let (mut all, mut bytes) = (BTreeMap::new(), 0_u64);
    for path in paths.into_iter().filter(|path| path != file) {
        let size = fs::metadata(&path)
            .map_err(|error| error.to_string())?
            .len();
        bytes = bytes.saturating_add(size);
        if bytes > MAX_FILE_BYTES {
            return Err(format!("its files have more than {MAX_FILE_BYTES} bytes"));
        }
        let content = fs::read(&path).map_err(|error| error.to_string())?;
        let name = path.strip_prefix(folder).unwrap_or(&path);
        all.insert(name.to_string_lossy().into_owned(), Digest::of(&content));
    }
    Ok(all)
}

/// The files below a folder. Nothing whose name begins with a dot is one.
pub(super) fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if depth > MAX_DEPTH {
        return Err(format!("it has folders more than {MAX_DEPTH} deep"));
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_symlink() {
            let name = entry.file_name();
            return Err(format!(
                "`{}` is a symbolic link; put the file itself there",
                name.to_string_lossy()
            ));
        }
        match kind.is_dir() {
            true => walk(&entry.path(), depth.saturating_add(1), found)?,
            false if kind.is_file() => found.push(entry.path()),
            // Whoever opens a pipe waits until somebody else does.
            false => {
                let name = entry.file_name();
                return Err(format!(
                    "`{}` is no file: pipes, sockets and devices cannot go with a skill",
                    name.to_string_lossy()
                ));
            }
        }
        // One of them is the skill itself.
        if found.len() > MAX_FILES.saturating_add(1) {
            return Err(format!("it has more than {MAX_FILES} files"));
        }
    }
    Ok(())
}
