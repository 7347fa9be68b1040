//! Tools that are WebAssembly components: the key `components` of a plugin of the type `tools`.

use std::path::PathBuf;

use super::read::{Field, Section};
use super::sections::{Reader, set};

/// A tool that is a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentTool {
    /// Its name.
    pub name: String,
    /// Where the component is.
    pub path: PathBuf,
    /// What it may do with the files that programs of agents see.
    pub files: Files,
}

/// What a component may do with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Files {
    /// It sees none.
    #[default]
    None,
    /// It may read them.
    Read,
    /// It may change those that programs may change.
    Write,
}

impl Reader<'_> {
    pub(super) fn component_tools(&self, section: &mut Section<'_>) -> Vec<ComponentTool> {
        let mut tools = Vec::new();
        set(&mut tools, section.field("components"), |it| {
            Some(it.list()?.filter_map(|it| self.component(&it)).collect())
        });
        tools
    }

    fn component(&self, field: &Field<'_>) -> Option<ComponentTool> {
        let mut section = field.section()?;
        let name = section.required("name", field.at());
        let path = section.required("path", field.at());
        let mut files = Files::None;
        set(&mut files, section.field("files"), |it| {
            it.choice(&[
                ("none", Files::None),
                ("read", Files::Read),
                ("write", Files::Write),
            ])
        });
        section.finish();
        Some(ComponentTool {
            name: name?.word()?,
            path: self.path(&path?)?,
            files,
        })
    }
}
