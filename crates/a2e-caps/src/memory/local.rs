//! A model in a folder, as model2vec writes it: a vector for each token, and a text is their mean.
//!
//! No server, no download, and microseconds a text. What else is in the folder (`config.json` says
//! whether vectors are made of length 1) does not matter: the store makes them so.

mod tensors;
mod tokens;

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use canonical::Digest;

use super::embed::Embedder;
use tensors::Tensors;
use tokens::WordPiece;

/// A model in a folder.
#[derive(Clone)]
pub struct Local(Arc<Model>);

struct Model {
    name: String,
    tokens: WordPiece,
    width: usize,
    /// The vectors, one after the other.
    values: Vec<f32>,
    /// What a token counts; all the same if there is nothing.
    weights: Option<Vec<f32>>,
    /// The vector of a token, if several share one.
    rows: Option<Vec<usize>>,
}

/// Tokens of a text that count, as model2vec has it.
const MAX_TOKENS: usize = 512;

impl Local {
    /// Reads the model of a folder: `tokenizer.json` and `model.safetensors`.
    ///
    /// # Errors
    /// What is missing, or what cannot be read.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let read = |name: &str| {
            let file = folder.join(name);
            fs::read(&file).map_err(|error| {
                let file = file.display();
                format!("cannot read {file}: {error}; a folder as model2vec saves it is needed")
            })
        };
        let (tokenizer, weights) = (read("tokenizer.json")?, read("model.safetensors")?);
        let in_file = |name: &str, error: String| format!("{name}: {error}");
        let tokens =
            WordPiece::read(&tokenizer).map_err(|error| in_file("tokenizer.json", error))?;
        // Whoever puts another model into the folder has all read again.
        let both = format!("{}{}", Digest::of(&tokenizer), Digest::of(&weights));
        let called = folder.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{called} {}", Digest::of(both.as_bytes()));
        let model = Model::read(name, tokens, &weights);
        let model = model.map_err(|error| in_file("model.safetensors", error))?;
        Ok(Self(Arc::new(model)))
    }
}

impl Model {
    fn read(name: String, tokens: WordPiece, bytes: &[u8]) -> Result<Self, String> {
        let tensors = Tensors::read(bytes)?;
        let found = tensors.floats("embeddings")?;
        let Some(([_, width], values)) = found.as_ref().map(|it| (it.shape.as_slice(), &it.values))
        else {
            return Err("there is no table `embeddings`".to_owned());
        };
        let (width, values) = (*width, values.clone());
        let count = values.len().checked_div(width).unwrap_or_default();
        let weights = tensors.floats("weights")?.map(|it| it.values);
        let rows = tensors.rows("mapping")?;
        let of_tokens = rows.as_ref().map_or(count, Vec::len);
        let is_short = |len: usize| len < tokens.len();
        if is_short(of_tokens) || weights.as_ref().is_some_and(|it| is_short(it.len())) {
            let tokens = tokens.len();
            return Err(format!(
                "it has fewer vectors than there are tokens ({tokens})"
            ));
        }
        if rows.iter().flatten().any(|row| *row >= count) {
            return Err("a token has a vector that is not there".to_owned());
        }
        Ok(Self {
            name,
            tokens,
            width,
            values,
            weights,
            rows,
        })
    }

    /// The mean of the vectors of a text; all zeros if it has no token that the model knows.
    fn embed(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0_f32; self.width];
        let mut count = 0.0_f32;
        for token in self.tokens.of(text, MAX_TOKENS) {
            let row = match &self.rows {
                Some(rows) => rows.get(token).copied().unwrap_or_default(),
                None => token,
            };
            let weights = self.weights.as_ref();
            let weight = weights.and_then(|it| it.get(token)).copied().unwrap_or(1.0);
            let from = row * self.width;
            let vector = self.values.get(from..from + self.width).unwrap_or_default();
            for (sum, value) in sum.iter_mut().zip(vector) {
                *sum += value * weight;
            }
            count += 1.0;
        }
        for value in &mut sum {
            *value /= count.max(1.0);
        }
        sum
    }
}

impl Embedder for Local {
    fn model(&self) -> &str {
        &self.0.name
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, String>> {
        let (model, texts) = (Arc::clone(&self.0), texts.to_vec());
        Box::pin(async move {
            let read = move || texts.iter().map(|text| model.embed(text)).collect();
            let read = tokio::task::spawn_blocking(read).await;
            read.map_err(|error| format!("texts cannot be read: {error}"))
        })
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({})", self.0.name)
    }
}
