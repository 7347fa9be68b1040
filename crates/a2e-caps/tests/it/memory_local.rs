//! Models in a folder, beside what Python's model2vec makes of the same texts (`make.py` has made the
//! models and asked it).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_caps::memory::{Embedder, Local};
use serde::Deserialize;
use tempfile::tempdir;

use crate::memory_embed::{find_at_last, keep, read_by};
use crate::vault::store;
use crate::wire::Agent;

#[derive(Deserialize)]
struct Expected {
    plain: Vec<Read>,
    packed: Vec<Read>,
}

#[derive(Deserialize)]
struct Read {
    text: String,
    vector: Vec<f32>,
}

fn folder(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/memory_local");
    tests.join(name)
}

/// Two models: one of plain numbers that folds texts, and one of numbers of 16 bits, with weights,
/// where tokens share vectors and letters stay as they are.
#[tokio::test]
async fn texts_are_read_as_by_model2vec() {
    let expected = fs::read(folder("expected.json")).unwrap();
    let expected: Expected = serde_json::from_slice(&expected).unwrap();
    // Python rounds the means of the second to 16 bits.
    for (name, all, exact) in [
        ("plain", expected.plain, 1e-5),
        ("packed", expected.packed, 2e-3),
    ] {
        let model = Local::open(&folder(name)).unwrap();
        let texts: Vec<String> = all.iter().map(|read| read.text.clone()).collect();
        assert!(texts.len() > 20);
        let vectors = model.embed(&texts).await.unwrap();
        assert_eq!(vectors.len(), all.len());
        for (vector, read) in vectors.iter().zip(&all) {
            assert_eq!(vector.len(), read.vector.len());
            let off = vector.iter().zip(&read.vector);
            let off = off.map(|(one, other)| (one - other).abs());
            let off = off.fold(0.0_f32, f32::max);
            assert!(off < exact, "{name}: {:?} is {off} off", read.text);
        }
    }
}

#[tokio::test]
async fn entries_are_found_with_a_model_in_a_folder() {
    let store = store();
    let model = Local::open(&folder("plain")).unwrap();
    let host = read_by(Arc::new(model), &store);
    let mut agent = Agent::connect_as(&host, "ada", &["memory"]).await;
    keep(&mut agent, "name", "name").await;
    keep(&mut agent, "mail", "mail").await;
    // As near as the vectors of the model have them, which share no word.
    find_at_last(&mut agent, "user", "mail").await;
}

/// Another model in the same folder is another model, and what cannot be read says what it is.
#[test]
fn a_folder_must_have_a_model() {
    let at = tempdir().unwrap();
    let copy = |from: &str, name: &str| {
        fs::copy(folder(from).join(name), at.path().join(name)).unwrap();
    };
    let open = || Local::open(at.path());
    let error = open().unwrap_err();
    assert!(
        error.contains("tokenizer.json") && error.contains("model2vec"),
        "{error}"
    );
    copy("plain", "tokenizer.json");
    assert!(open().unwrap_err().contains("model.safetensors"));
    copy("plain", "model.safetensors");
    let first = open().unwrap();
    assert_eq!(open().unwrap().model(), first.model());
    copy("packed", "tokenizer.json");
    assert_ne!(open().unwrap().model(), first.model());
    let tokenizer = fs::read_to_string(folder("plain").join("tokenizer.json")).unwrap();
    let replaced = |from: &str, to: &str| {
        assert!(tokenizer.contains(from));
        fs::write(
            at.path().join("tokenizer.json"),
            tokenizer.replace(from, to),
        )
        .unwrap();
        open().unwrap_err()
    };
    let error = replaced("WordPiece", "Unigram");
    assert!(
        error.contains("Unigram") && error.contains("`url`"),
        "{error}"
    );
    assert!(replaced("BertPreTokenizer", "Metaspace").contains("Metaspace"));
    assert!(replaced("\"dog\":4", "\"dog\":4000").contains("fewer vectors"));
    assert!(replaced("\"dog\":4", "\"dog\":40000000").contains("too large"));
    assert!(replaced("{", "[").contains("no tokenizer"));
}
