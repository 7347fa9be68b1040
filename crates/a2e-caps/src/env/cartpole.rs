//! The environment `cartpole`: a pole on a cart, to be balanced by pushing the cart.
//!
//! The physics is that of Gymnasium's `CartPole-v1`, operation by operation: the pole is unstable, and
//! a difference in the last bit would have grown to nonsense after some hundred steps.

use std::f64::consts::PI;

use a2e_runtime::BoxFuture;
use a2e_wire::Object;
use serde::Deserialize;
use serde_json::json;

use super::environment::{
    Action, Change, EnvError, Environment, Opened, Opening, Spaces, World, state,
};
use super::picture::{Colour, Picture};

/// The environment.
#[derive(Debug)]
pub struct CartPole {
    spaces: Spaces,
}

/// Where cart and pole are, and how fast.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cart {
    x: f64,
    x_dot: f64,
    theta: f64,
    theta_dot: f64,
}

#[derive(Deserialize)]
struct Options {
    state: Option<[f64; 4]>,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Deserialize)]
struct Seen {
    theta: f64,
    theta_dot: f64,
}

const GRAVITY: f64 = 9.8;
const MASS_POLE: f64 = 0.1;
const TOTAL_MASS: f64 = MASS_POLE + 1.0;
const HALF_LENGTH: f64 = 0.5;
const POLE_MASS_LENGTH: f64 = MASS_POLE * HALF_LENGTH;
const FORCE: f64 = 10.0;
const TAU: f64 = 0.02;
const MAX_THETA: f64 = 12.0 * 2.0 * PI / 360.0;
const MAX_X: f64 = 2.4;
/// Where it begins at most, to either side.
const START: f64 = 0.05;
/// What a speed may be at the beginning: no step leads from it to a number that JSON cannot say.
const MAX_SPEED: f64 = 1000.0;
const MAX_STEPS: u64 = 500;
const VERBS: [&str; 2] = ["left", "right"];

impl Default for CartPole {
    fn default() -> Self {
        let action = json!({
            "type": "object",
            "properties": {
                "type": {"enum": VERBS},
                "action": {"type": "integer", "minimum": 0, "maximum": 1},
            },
            "anyOf": [{"required": ["type"]}, {"required": ["action"]}],
        });
        // What ends an episode is still a state, so the bounds are twice those of an episode.
        let within = |most: f64| json!({"type": "number", "minimum": -most, "maximum": most});
        let state = json!({
            "type": "object",
            "properties": {
                "x": within(2.0 * MAX_X),
                "x_dot": {"type": "number"},
                "theta": within(2.0 * MAX_THETA),
                "theta_dot": {"type": "number"},
            },
            "required": ["x", "x_dot", "theta", "theta_dot"],
            // To Gymnasium it is one array: these members in this order.
            "x-space": "Box",
            "x-dtype": "float32",
        });
        Self {
            spaces: Spaces::new(&action, &state),
        }
    }
}

impl Environment for CartPole {
    fn name(&self) -> &str {
        "cartpole"
    }

    fn description(&self) -> &str {
        "A pole on a cart, to be balanced by pushing the cart left and right (CartPole-v1)"
    }

    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn max_steps(&self) -> Option<u64> {
        Some(MAX_STEPS)
    }

    fn open(&self, opening: Opening) -> BoxFuture<'_, Result<Opened, EnvError>> {
        let cart = begin(opening);
        Box::pin(std::future::ready(cart.map(|cart| Opened {
            world: Box::new(cart),
            state: cart.state(),
        })))
    }
}

/// At the state that was asked for, or somewhere near the middle.
fn begin(mut opening: Opening) -> Result<Cart, EnvError> {
    let options: Options = opening.read()?;
    if let Some([x, x_dot, theta, theta_dot]) = options.state {
        let cart = Cart {
            x,
            x_dot,
            theta,
            theta_dot,
        };
        let is_slow = x_dot.abs() <= MAX_SPEED && theta_dot.abs() <= MAX_SPEED;
        return match is_slow && !cart.has_fallen() {
            true => Ok(cart),
            false => Err(EnvError::Wrong(format!(
                "`options.state` is [x, x_dot, theta, theta_dot] with x within {MAX_X}, theta \
                 within {MAX_THETA} and both speeds within {MAX_SPEED} of 0"
            ))),
        };
    }
    let (low, high) = (options.low.unwrap_or(-START), options.high.unwrap_or(START));
    if low > high || low < -MAX_THETA || high > MAX_THETA {
        return Err(EnvError::Wrong(format!(
            "`options.low` and `options.high` are bounds for where it begins, within {MAX_THETA} \
             of 0"
        )));
    }
    let random = &mut opening.random;
    let [x, x_dot, theta, theta_dot] = [(); 4].map(|()| random.between(low, high));
    Ok(Cart {
        x,
        x_dot,
        theta,
        theta_dot,
    })
}

impl Cart {
    #[expect(
        clippy::suboptimal_flops,
        reason = "a fused operation rounds once where Gymnasium rounds twice"
    )]
    fn pushed(self, force: f64) -> Self {
        let (sin, cos) = (self.theta.sin(), self.theta.cos());
        let temp =
            (force + POLE_MASS_LENGTH * (self.theta_dot * self.theta_dot) * sin) / TOTAL_MASS;
        let theta_acc = (GRAVITY * sin - cos * temp)
            / (HALF_LENGTH * (4.0 / 3.0 - MASS_POLE * (cos * cos) / TOTAL_MASS));
        let x_acc = temp - POLE_MASS_LENGTH * theta_acc * cos / TOTAL_MASS;
        Self {
            x: self.x + TAU * self.x_dot,
            x_dot: self.x_dot + TAU * x_acc,
            theta: self.theta + TAU * self.theta_dot,
            theta_dot: self.theta_dot + TAU * theta_acc,
        }
    }

    fn has_fallen(self) -> bool {
        self.x.abs() > MAX_X || self.theta.abs() > MAX_THETA
    }

    fn state(self) -> Object<'static> {
        let Self {
            x,
            x_dot,
            theta,
            theta_dot,
        } = self;
        // Rust writes as many digits as bring back the same number.
        state(format!(
            "{{\"x\":{x},\"x_dot\":{x_dot},\"theta\":{theta},\"theta_dot\":{theta_dot}}}"
        ))
    }
}

impl World for Cart {
    fn step_at_once(&mut self, action: &Action) -> Option<Result<Change, EnvError>> {
        let stepped = action.choose(&VERBS).map(|verb| {
            *self = self.pushed(if verb == 1 { FORCE } else { -FORCE });
            Change {
                state: self.state(),
                reward: 1.0,
                done: self.has_fallen(),
            }
        });
        Some(stepped)
    }

    fn text(&self) -> Option<String> {
        let column = ((self.x / MAX_X + 1.0) * 20.0).round().clamp(0.0, 40.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to 40"
        )]
        let column = column as usize;
        let pole = match self.theta / MAX_THETA {
            lean if lean < -0.33 => '\\',
            lean if lean > 0.33 => '/',
            _ => '|',
        };
        Some(format!(
            "{:column$}{pole}\n{:column$}#\n{:-<41}\nx {:+.3}  angle {:+.1}°",
            "",
            "",
            "",
            self.x,
            self.theta.to_degrees()
        ))
    }

    fn picture(&self) -> Option<Picture> {
        Some(draw(*self))
    }

    /// Towards the side to which the pole falls.
    fn plan(&self, seen: Option<&Object<'_>>) -> Vec<Object<'static>> {
        let own = Seen {
            theta: self.theta,
            theta_dot: self.theta_dot,
        };
        let seen = seen.and_then(|seen| seen.raw().deserialize().ok());
        let seen: Seen = seen.unwrap_or(own);
        let falls_right = seen.theta_dot.mul_add(0.5, seen.theta) > 0.0;
        let verb = VERBS.get(usize::from(falls_right)).unwrap_or(&"left");
        vec![state(format!("{{\"type\":\"{verb}\"}}"))]
    }
}

fn draw(cart: Cart) -> Picture {
    const WHITE: Colour = [255; 3];
    const BLACK: Colour = [0; 3];
    const POLE: Colour = [202, 152, 101];
    const AXLE: Colour = [129, 132, 203];
    const WIDTH: f64 = 600.0;
    let mut picture = Picture::new(600, 400, WHITE);
    let scale = WIDTH / (2.0 * MAX_X);
    let (x, y) = (cart.x.mul_add(scale, WIDTH / 2.0), 300.0);
    picture.rectangle(0.0, y, WIDTH, y + 1.0, BLACK);
    picture.rectangle(x - 25.0, y - 15.0, x + 25.0, y + 15.0, BLACK);
    let foot = (x, y - 7.5);
    let length = scale * 2.0 * HALF_LENGTH;
    let head = (
        length.mul_add(cart.theta.sin(), foot.0),
        length.mul_add(-cart.theta.cos(), foot.1),
    );
    picture.line(foot, head, 10.0, POLE);
    picture.line(foot, foot, 10.0, AXLE);
    picture
}
