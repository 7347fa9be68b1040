//! Five thousand things to remember, and questions about some of them.

/// What is remembered, by its place in the list.
pub(crate) struct Corpus {
    pub(crate) entries: Vec<String>,
    pub(crate) questions: Vec<Question>,
}

/// A question, and the entry that answers it.
pub(crate) struct Question {
    pub(crate) class: &'static str,
    pub(crate) text: String,
    pub(crate) answer: usize,
}

/// Kinds of questions that ask with the words of the answer.
pub(crate) const LEXICAL: [&str; 5] = [
    "names",
    "misspelt names",
    "short words",
    "near duplicates",
    "other languages",
];
pub(crate) const PARAPHRASES: &str = "paraphrases";

const ENTRIES: usize = 5_000;

#[rustfmt::skip]
const FIRST: [&str; 40] = [
    "Amelia", "Benedikt", "Chiara", "Dmitri", "Esperanza", "Fiona", "Giovanni", "Hannelore", "Ingrid",
    "Jacques", "Katharina", "Leopold", "Magdalena", "Niamh", "Olivier", "Priyanka", "Quentin", "Rosalind",
    "Siegfried", "Tatiana", "Umberto", "Valentina", "Wilhelmina", "Xavier", "Yasmine", "Zbigniew", "Aurelia",
    "Bartholomew", "Clementine", "Desmond", "Evangeline", "Ferdinand", "Gwendolyn", "Humphrey", "Isolde",
    "Jorinde", "Konstantin", "Lavinia", "Mortimer", "Nathaniel",
];
#[rustfmt::skip]
const LAST: [&str; 40] = [
    "Abernathy", "Baumgartner", "Castellano", "Drozdowski", "Eichhorn", "Fitzgerald", "Grünewald", "Haverford",
    "Iglesias", "Jankowski", "Kirchner", "Lindqvist", "Montgomery", "Nakamura", "Oyelaran", "Petrosyan",
    "Quackenbush", "Rasmussen", "Schrödinger", "Thibault", "Uchida", "Vasconcelos", "Wojciechowski",
    "Xenakis", "Yamaguchi", "Zimmermann", "Achterberg", "Bellweather", "Czerny", "Dunkelman", "Engelhardt",
    "Featherstone", "Goldschmidt", "Hollingsworth", "Isaksson", "Jablonski", "Kowalczyk", "Laurentis",
    "Mandelbaum", "Niedermeyer",
];
const JOBS: [&str; 10] = [
    "plumber",
    "violinist",
    "surveyor",
    "translator",
    "optician",
    "florist",
    "welder",
    "librarian",
    "geologist",
    "accountant",
];
const PLACES: [&str; 10] = [
    "Porto", "Tampere", "Graz", "Cork", "Leuven", "Gdansk", "Bari", "Aarhus", "Lyon", "Bergen",
];
const SUPPLIERS: [&str; 12] = [
    "Acme", "Borealis", "Cobalt", "Dynamo", "Everest", "Fulcrum", "Granite", "Horizon", "Ionic",
    "Juniper", "Krypton", "Lumen",
];
const THINGS: [&str; 16] = [
    "UV lamp", "torch", "drill", "ladder", "rope", "saw", "tarp", "pump", "jack", "vise", "level",
    "chisel", "kettle", "tent", "radio", "map",
];
/// A thing in several languages: German, French, Spanish, Polish, Russian, Greek, Japanese, Chinese.
const SAID: [(&str, &str); 8] = [
    (
        "Der Schlüssel Nummer {n} hängt im Flur neben der Tür",
        "Schlüssel Nummer {n}",
    ),
    (
        "La réunion numéro {n} aura lieu à la mairie après le déjeuner",
        "réunion numéro {n} mairie",
    ),
    (
        "El paquete número {n} llegó a la oficina de correos mañana por la tarde",
        "paquete numero {n}",
    ),
    (
        "Zamówienie numer {n} czeka w sklepie przy głównej ulicy",
        "zamowienie numer {n} sklep",
    ),
    (
        "Ёлка номер {n} стоит в большой гостиной у окна",
        "елка номер {n}",
    ),
    (
        "Το βιβλίο αριθμός {n} είναι στη βιβλιοθήκη της Αθήνας",
        "βιβλιο αριθμος {n}",
    ),
    ("会議室{n}の鍵は受付にあります", "会議室{n}の鍵"),
    ("第{n}号仓库的门今天晚上关闭", "第{n}号仓库"),
];

impl Corpus {
    pub(crate) fn new() -> Self {
        let mut corpus = Self {
            entries: Vec::new(),
            questions: Vec::new(),
        };
        corpus.paraphrases();
        corpus.people();
        corpus.short_words();
        corpus.invoices();
        corpus.languages();
        corpus.fill();
        corpus
    }

    fn add(&mut self, text: String) -> usize {
        self.entries.push(text);
        self.entries.len() - 1
    }

    fn ask(&mut self, class: &'static str, text: String, answer: usize) {
        self.questions.push(Question {
            class,
            text,
            answer,
        });
    }

    fn paraphrases(&mut self) {
        for line in include_str!("paraphrases.tsv").lines() {
            let (entry, question) = line.split_once('\t').unwrap();
            let answer = self.add(entry.to_owned());
            self.ask(PARAPHRASES, question.to_owned(), answer);
        }
    }

    /// Every first name with every last name: sixteen hundred people.
    fn people(&mut self) {
        for (at, first) in FIRST.iter().enumerate() {
            for (other, last) in LAST.iter().enumerate() {
                let (job, place) = (JOBS[(at + other) % 10], PLACES[(at * 3 + other) % 10]);
                let answer = self.add(format!("{first} {last} is a {job} from {place}"));
                match (at * 40 + other) % 27 {
                    5 => self.ask("names", format!("Who is {first} {last}?"), answer),
                    14 => {
                        let text = format!("{} {}", misspelt(first, at), misspelt(last, other));
                        self.ask("misspelt names", text, answer);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Shelves have short names, and what lies there has too.
    fn short_words(&mut self) {
        for row in 'A'..='T' {
            for number in 1..=20 {
                let thing = THINGS[(number * 7 + row as usize) % THINGS.len()];
                let answer = self.add(format!("Bin {row}{number} has the {thing}"));
                if (number + row as usize).is_multiple_of(7) {
                    self.ask(
                        "short words",
                        format!("what is in bin {row}{number}"),
                        answer,
                    );
                }
            }
        }
    }

    /// Twelve hundred that differ in a number, a name and a day.
    fn invoices(&mut self) {
        for number in 0..1200 {
            let supplier = SUPPLIERS[number % SUPPLIERS.len()];
            let answer = self.add(format!(
                "Invoice {} from {supplier} over {} euros is due on day {} of the month",
                4000 + number,
                100 + number * 7 % 900,
                1 + number % 28,
            ));
            if number % 20 == 3 {
                let text = format!("when is invoice {} from {supplier} due", 4000 + number);
                self.ask("near duplicates", text, answer);
            }
        }
    }

    fn languages(&mut self) {
        for number in 0..120 {
            for (at, (entry, question)) in SAID.iter().enumerate() {
                let name = (100 + number * 7).to_string();
                let answer = self.add(entry.replace("{n}", &name));
                if (number + at * 2) % 15 == 0 {
                    self.ask("other languages", question.replace("{n}", &name), answer);
                }
            }
        }
    }

    /// The rest is what a team writes down in a year.
    fn fill(&mut self) {
        const WHO: [&str; 8] = [
            "the team",
            "a customer",
            "support",
            "our partner",
            "the board",
            "an intern",
            "sales",
            "legal",
        ];
        const DID: [&str; 8] = [
            "asked about",
            "reviewed",
            "closed",
            "reopened",
            "documented",
            "moved",
            "tested",
            "cancelled",
        ];
        const WHAT: [&str; 8] = [
            "the ticket",
            "the migration",
            "the proposal",
            "the dashboard",
            "the newsletter",
            "the invoice template",
            "the onboarding",
            "the survey",
        ];
        let mut number = 0;
        while self.entries.len() < ENTRIES {
            let (who, did) = (WHO[number % 8], DID[number / 8 % 8]);
            let what = WHAT[number / 64 % 8];
            self.add(format!(
                "Note {number}: {who} {did} {what} in week {}",
                number % 52
            ));
            number += 1;
        }
    }
}

/// One letter is wrong: left out, doubled, or swapped with the next.
fn misspelt(name: &str, how: usize) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    let at = 2 + how % (letters.len() - 4);
    match how % 3 {
        0 => drop(letters.remove(at)),
        1 => letters.insert(at, letters[at]),
        _ => letters.swap(at, at + 1),
    }
    letters.into_iter().collect()
}
