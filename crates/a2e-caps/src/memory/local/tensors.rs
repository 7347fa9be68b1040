//! Tables of numbers, as safetensors has them: the length of a header, the header, the numbers.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

pub(super) struct Tensors<'a> {
    header: BTreeMap<String, Value>,
    data: &'a [u8],
}

/// Numbers, and how they are arranged.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Floats {
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<f32>,
}

#[derive(Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl<'a> Tensors<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let cut = || "it ends too early; was it copied whole?".to_owned();
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
        let header = serde_json::from_slice(header)
            .map_err(|error| format!("it has no header of safetensors: {error}"))?;
        Ok(Self { header, data })
    }

    /// A table of numbers, if there is one of that name.
    pub(super) fn floats(&self, name: &str) -> Result<Option<Floats>, String> {
        let Some((info, bytes)) = self.find(name)? else {
            return Ok(None);
        };
        let values = match info.dtype.as_str() {
            "F64" => each(bytes, |it| f64::from_le_bytes(it) as f32),
            "F32" => each(bytes, f32::from_le_bytes),
            "F16" => each(bytes, |it| from_half(u16::from_le_bytes(it))),
            "BF16" => each(bytes, |it| {
                f32::from_bits(u32::from(u16::from_le_bytes(it)) << 16)
            }),
            "I8" => each(bytes, |it: [u8; 1]| f32::from(i8::from_le_bytes(it))),
            other => return Err(format!("`{name}` has numbers of the kind {other}")),
        };
        let shape = info.shape;
        check(name, &shape, values.len())?;
        Ok(Some(Floats { shape, values }))
    }

    /// Places in another table, if there is one of that name.
    pub(super) fn rows(&self, name: &str) -> Result<Option<Vec<usize>>, String> {
        let Some((info, bytes)) = self.find(name)? else {
            return Ok(None);
        };
        let row = |row: i64| usize::try_from(row).unwrap_or(usize::MAX);
        let rows = match info.dtype.as_str() {
            "I64" => each(bytes, |it| row(i64::from_le_bytes(it))),
            "I32" => each(bytes, |it| row(i32::from_le_bytes(it).into())),
            "U32" => each(bytes, |it| row(u32::from_le_bytes(it).into())),
            "U16" => each(bytes, |it| row(u16::from_le_bytes(it).into())),
            "I16" => each(bytes, |it| row(i16::from_le_bytes(it).into())),
            other => return Err(format!("`{name}` has numbers of the kind {other}")),
        };
        check(name, &info.shape, rows.len())?;
        Ok(Some(rows))
    }

    fn find(&self, name: &str) -> Result<Option<(Info, &'a [u8])>, String> {
        let Some(info) = self.header.get(name) else {
            return Ok(None);
        };
        let info = Info::deserialize(info)
            .map_err(|error| format!("the header says nothing about `{name}`: {error}"))?;
        let (from, to) = info.data_offsets;
        let bytes = self.data.get(from..to);
        let bytes = bytes.ok_or_else(|| format!("`{name}` lies outside the file"))?;
        Ok(Some((info, bytes)))
    }
}

fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (all, _) = bytes.as_chunks::<N>();
    all.iter().map(|one| read(*one)).collect()
}

fn check(name: &str, shape: &[usize], len: usize) -> Result<(), String> {
    let all = shape
        .iter()
        .try_fold(1_usize, |all, one| all.checked_mul(*one));
    match all == Some(len) {
        true => Ok(()),
        false => Err(format!("`{name}` is not as large as the header says")),
    }
}

/// A number of 16 bits, as IEEE 754 has it.
fn from_half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff) / 1024.0;
    match exponent {
        0 => sign * fraction * 2.0_f32.powi(-14),
        0x1f => f32::NAN,
        _ => sign * (1.0 + fraction) * 2.0_f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(data);
        file
    }

    #[test]
    fn numbers_of_every_kind_are_read() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x0001, 5.960_464_5e-8),
            (0x7bff, 65504.0),
            (0x8000, 0.0),
        ] {
            assert_eq!(from_half(bits), value, "{bits:x}");
        }
        let table = |kind: &str, data: &[u8]| {
            let len = data.len();
            let header = format!(
                r#"{{"__metadata__":{{"a":"b"}},
                "t":{{"dtype":"{kind}","shape":[2],"data_offsets":[0,{len}]}}}}"#
            );
            let file = file(&header, data);
            let tensors = Tensors::read(&file).unwrap();
            (tensors.floats("t"), tensors.rows("t"))
        };
        for (kind, data) in [
            ("F64", [1.0_f64, -0.5].map(f64::to_le_bytes).concat()),
            ("F32", [1.0_f32, -0.5].map(f32::to_le_bytes).concat()),
            ("F16", [0x3c00_u16, 0xb800].map(u16::to_le_bytes).concat()),
            ("BF16", [0x3f80_u16, 0xbf00].map(u16::to_le_bytes).concat()),
        ] {
            let (floats, rows) = table(kind, &data);
            assert_eq!(floats.unwrap().unwrap().values, [1.0, -0.5], "{kind}");
            assert!(rows.is_err(), "{kind}");
        }
        assert_eq!(
            table("I8", &[3, 0xff]).0.unwrap().unwrap().values,
            [3.0, -1.0]
        );
        let rows = table("I64", &[7_i64, 0].map(i64::to_le_bytes).concat()).1;
        assert_eq!(rows.unwrap().unwrap(), [7, 0]);
        assert!(table("I32", &[1, 0, 0, 0]).1.is_err());
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        assert!(Tensors::read(b"short").is_err());
        assert!(Tensors::read(&u64::MAX.to_le_bytes()).is_err());
        assert!(Tensors::read(&file("[]", b"")).is_err());
        let header = r#"{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert!(
            Tensors::read(&file(header, &[0; 7]))
                .unwrap()
                .floats("t")
                .is_err()
        );
        let whole = file(header, &[0; 8]);
        let tensors = Tensors::read(&whole).unwrap();
        assert_eq!(tensors.floats("t").unwrap().unwrap().values, [0.0; 2]);
        assert_eq!(tensors.floats("u"), Ok(None));
    }
}
