//! The environment `gridworld`: find the way to the goal, around walls and pits.

use std::collections::VecDeque;

use a2e_runtime::BoxFuture;
use a2e_wire::Object;
use serde::Deserialize;
use serde_json::json;

use super::environment::{
    Action, Change, EnvError, Environment, Opened, Opening, Spaces, World, state,
};
use super::picture::{Colour, Picture};
use super::random::Random;

/// The environment.
#[derive(Debug)]
pub struct GridWorld {
    spaces: Spaces,
}

/// What a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Free,
    Wall,
    Pit,
    Goal,
}

/// A place: column and row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    x: usize,
    y: usize,
}

#[derive(Debug)]
struct Grid {
    width: usize,
    height: usize,
    cells: Vec<Cell>,
    agent: Place,
    goal: Place,
}

#[derive(Deserialize)]
struct Options {
    width: Option<usize>,
    height: Option<usize>,
    /// Rows of `S` (start), `G` (goal), `#` (wall), `O` (pit) and `.`.
    map: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Seen {
    x: usize,
    y: usize,
}

/// Places in a row, and rows.
pub const MAX_SIDE: usize = 64;
const SIDE: usize = 8;
/// What a step costs, so that a short way is worth more.
const STEP: f64 = -0.01;
const VERBS: [&str; 4] = ["up", "right", "down", "left"];

impl Default for GridWorld {
    fn default() -> Self {
        let action = json!({
            "type": "object",
            "properties": {
                "type": {"enum": VERBS},
                "action": {"type": "integer", "minimum": 0, "maximum": 3},
            },
            "anyOf": [{"required": ["type"]}, {"required": ["action"]}],
        });
        let place = || json!({"type": "integer", "minimum": 0, "maximum": MAX_SIDE - 1});
        let state = json!({
            "type": "object",
            "properties": {"x": place(), "y": place(), "goal_x": place(), "goal_y": place()},
            "required": ["x", "y", "goal_x", "goal_y"],
        });
        Self {
            spaces: Spaces::new(&action, &state),
        }
    }
}

impl Environment for GridWorld {
    fn name(&self) -> &str {
        "gridworld"
    }

    fn description(&self) -> &str {
        "Find the way to the goal (+1) around walls and pits (-1); each step costs 0.01"
    }

    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn max_steps(&self) -> Option<u64> {
        Some(1000)
    }

    fn open(&self, mut opening: Opening) -> BoxFuture<'_, Result<Opened, EnvError>> {
        let grid = opening
            .read::<Options>()
            .and_then(|options| match options.map {
                Some(rows) => Grid::drawn(&rows),
                None => Grid::random(&options, &mut opening.random),
            });
        Box::pin(std::future::ready(grid.map(|grid| Opened {
            state: grid.state(),
            world: Box::new(grid),
        })))
    }
}

impl Grid {
    /// A grid with walls and pits here and there, and a way to the goal.
    fn random(options: &Options, random: &mut Random) -> Result<Self, EnvError> {
        let width = options.width.unwrap_or(SIDE);
        let height = options.height.unwrap_or(SIDE);
        let sides = 2..=MAX_SIDE;
        if !sides.contains(&width) || !sides.contains(&height) {
            return Err(wrong_size());
        }
        let size = width.saturating_mul(height);
        let mut grid = Self {
            width,
            height,
            cells: vec![Cell::Free; size],
            agent: Place { x: 0, y: 0 },
            goal: Place {
                x: width.saturating_sub(1),
                y: height.saturating_sub(1),
            },
        };
        grid.set(grid.goal, Cell::Goal);
        for number in 0..size / 4 {
            let place = Place {
                x: random.below(width),
                y: random.below(height),
            };
            if place == grid.agent || grid.at(place) != Cell::Free {
                continue;
            }
            let cell = if number % 4 == 3 {
                Cell::Pit
            } else {
                Cell::Wall
            };
            grid.set(place, cell);
            if grid.first_step(grid.agent).is_none() {
                grid.set(place, Cell::Free);
            }
        }
        Ok(grid)
    }

    /// A grid as somebody drew it.
    fn drawn(rows: &[String]) -> Result<Self, EnvError> {
        let width = rows.first().map_or(0, |row| row.chars().count());
        let height = rows.len();
        if !(1..=MAX_SIDE).contains(&width) || !(1..=MAX_SIDE).contains(&height) {
            return Err(wrong_size());
        }
        let wrong = || {
            let text = "`options.map` is rows of one length, of `.`, `#` (wall), `O` (pit), one `S` \
                        (start) and one `G` (goal)";
            EnvError::Wrong(text.to_owned())
        };
        let (mut cells, mut start, mut goal) = (Vec::new(), Vec::new(), Vec::new());
        for (y, row) in rows.iter().enumerate() {
            if row.chars().count() != width {
                return Err(wrong());
            }
            for (x, letter) in row.chars().enumerate() {
                cells.push(match letter {
                    '#' => Cell::Wall,
                    'O' => Cell::Pit,
                    'G' => Cell::Goal,
                    '.' | 'S' => Cell::Free,
                    _ => return Err(wrong()),
                });
                match letter {
                    'S' => start.push(Place { x, y }),
                    'G' => goal.push(Place { x, y }),
                    _ => {}
                }
            }
        }
        let ([agent], [goal]) = (start.as_slice(), goal.as_slice()) else {
            return Err(wrong());
        };
        Ok(Self {
            width,
            height,
            cells,
            agent: *agent,
            goal: *goal,
        })
    }

    fn index(&self, place: Place) -> usize {
        place.y.saturating_mul(self.width).saturating_add(place.x)
    }

    fn at(&self, place: Place) -> Cell {
        let cell = self.cells.get(self.index(place));
        cell.copied().unwrap_or(Cell::Wall)
    }

    fn set(&mut self, place: Place, cell: Cell) {
        let index = self.index(place);
        if let Some(slot) = self.cells.get_mut(index) {
            *slot = cell;
        }
    }

    /// Where a step leads; walls and borders stop it.
    fn moved(&self, from: Place, verb: usize) -> Place {
        let Place { x, y } = from;
        let to = match verb {
            0 => y.checked_sub(1).map(|y| Place { x, y }),
            1 => x.checked_add(1).map(|x| Place { x, y }),
            2 => y.checked_add(1).map(|y| Place { x, y }),
            _ => x.checked_sub(1).map(|x| Place { x, y }),
        };
        let inside = |to: &Place| to.x < self.width && to.y < self.height;
        let free = |to: &Place| inside(to) && self.at(*to) != Cell::Wall;
        to.filter(free).unwrap_or(from)
    }

    /// The first step of a shortest way to the goal, if there is a way.
    fn first_step(&self, from: Place) -> Option<usize> {
        let mut seen = vec![false; self.cells.len()];
        let mut next = VecDeque::from([(from, None)]);
        while let Some((place, first)) = next.pop_front() {
            if place == self.goal {
                return first;
            }
            for verb in 0..VERBS.len() {
                let to = self.moved(place, verb);
                let index = self.index(to);
                if self.at(to) != Cell::Pit
                    && let Some(seen @ false) = seen.get_mut(index)
                {
                    *seen = true;
                    next.push_back((to, first.or(Some(verb))));
                }
            }
        }
        None
    }

    fn state(&self) -> Object<'static> {
        let (Place { x, y }, goal) = (self.agent, self.goal);
        state(format!(
            "{{\"x\":{x},\"y\":{y},\"goal_x\":{},\"goal_y\":{}}}",
            goal.x, goal.y
        ))
    }

    fn letter(&self, place: Place) -> char {
        match self.at(place) {
            _ if place == self.agent => 'A',
            Cell::Free => '.',
            Cell::Wall => '#',
            Cell::Pit => 'O',
            Cell::Goal => 'G',
        }
    }

    fn rows(&self) -> impl Iterator<Item = String> {
        (0..self.height).map(|y| {
            (0..self.width)
                .map(|x| self.letter(Place { x, y }))
                .collect()
        })
    }
}

impl World for Grid {
    fn step_at_once(&mut self, action: &Action) -> Option<Result<Change, EnvError>> {
        let stepped = action.choose(&VERBS).map(|verb| {
            self.agent = self.moved(self.agent, verb);
            let (reward, done) = match self.at(self.agent) {
                Cell::Goal => (1.0, true),
                Cell::Pit => (-1.0, true),
                Cell::Free | Cell::Wall => (STEP, false),
            };
            Change {
                state: self.state(),
                reward,
                done,
            }
        });
        Some(stepped)
    }

    fn text(&self) -> Option<String> {
        Some(self.rows().collect::<Vec<_>>().join("\n"))
    }

    fn picture(&self) -> Option<Picture> {
        const SIZE: usize = 24;
        let mut picture = Picture::new(
            self.width.saturating_mul(SIZE),
            self.height.saturating_mul(SIZE),
            [200; 3],
        );
        for (y, row) in self.rows().enumerate() {
            for (x, letter) in row.chars().enumerate() {
                let colour: Colour = match letter {
                    'A' => [40, 90, 200],
                    'G' => [40, 170, 70],
                    'O' => [190, 50, 40],
                    '#' => [60; 3],
                    _ => [255; 3],
                };
                #[expect(clippy::cast_precision_loss, reason = "pictures are small")]
                let [left, top] = [x, y].map(|at| at.saturating_mul(SIZE) as f64);
                #[expect(clippy::cast_precision_loss, reason = "pictures are small")]
                let size = SIZE as f64;
                picture.rectangle(left + 1.0, top + 1.0, left + size, top + size, colour);
            }
        }
        Some(picture)
    }

    fn plan(&self, seen: Option<&Object<'_>>) -> Vec<Object<'static>> {
        let seen: Option<Seen> = seen.and_then(|seen| seen.raw().deserialize().ok());
        let from = seen.map_or(self.agent, |Seen { x, y }| Place { x, y });
        if from.x >= self.width || from.y >= self.height {
            return Vec::new();
        }
        let verb = self.first_step(from).and_then(|verb| VERBS.get(verb));
        let planned = verb.map(|verb| state(format!("{{\"type\":\"{verb}\"}}")));
        planned.into_iter().collect()
    }
}

fn wrong_size() -> EnvError {
    EnvError::Wrong(format!(
        "a grid has from 2 to {MAX_SIDE} columns (`options.width`) and rows (`options.height`)"
    ))
}
