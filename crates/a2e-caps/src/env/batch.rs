//! Steps in many episodes at once.

use std::num::NonZero;
use std::sync::{Arc, LazyLock};

use a2e_runtime::{Failure, Learner, Session};
use a2e_wire::messages::env::EnvObservation;
use a2e_wire::messages::learn::Experience;
use a2e_wire::{EpisodeId, Object};
use tokio::task::JoinSet;

use super::episode::{Episode, Moment, Taken};
use super::failures;

/// Steps that are not worth a task of their own.
const CHUNK: usize = 256;

/// How many threads there are. To ask the system means to read a handful of files.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get));

/// A step to be taken.
pub(super) struct Planned {
    pub(super) episode: Arc<Episode>,
    pub(super) action: Object<'static>,
}

/// Whose steps they are, and who learns of them.
#[derive(Debug, Clone)]
pub(super) struct Audience {
    pub(super) session: Arc<Session>,
    pub(super) learner: Option<Arc<dyn Learner>>,
}

/// The episode that is to be stepped twice, if there is one.
pub(super) fn twice(planned: &[Planned]) -> Option<&EpisodeId<'static>> {
    let mut numbers: Vec<_> = planned.iter().map(|it| it.episode.number).collect();
    numbers.sort_unstable();
    let mut pairs = numbers.iter().zip(numbers.iter().skip(1));
    let (twice, _) = pairs.find(|(one, next)| one == next)?;
    let found = planned.iter().find(|it| it.episode.number == *twice)?;
    Some(&found.episode.id)
}

impl Audience {
    /// Takes a step and tells of it.
    pub(super) async fn step(
        &self,
        episode: &Episode,
        action: Object<'static>,
    ) -> Result<EnvObservation<'static>, Failure> {
        let taken = episode.step(action, self.learner.is_some()).await?;
        self.tell(taken.experience.into_iter().map(|it| *it).collect())
            .await;
        Ok(taken.observation)
    }

    /// Takes the steps and tells of them, all at once.
    pub(super) async fn step_all(&self, planned: Vec<Planned>) -> Result<Vec<Taken>, Failure> {
        let mut taken = step_all(planned, self.learner.is_some()).await?;
        if self.learner.is_some() {
            let experiences = taken.iter_mut().filter_map(|it| it.experience.take());
            let experiences = experiences.map(|it| *it).collect();
            self.tell(experiences).await;
        }
        Ok(taken)
    }

    /// Nobody is answered before what happened is kept. But steps cannot be taken back: that
    /// something could not be kept is for the operator to know, and not for the agent to repeat.
    async fn tell(&self, experiences: Vec<Experience<'static>>) {
        let Some(learner) = self.learner.as_ref().filter(|_| !experiences.is_empty()) else {
            return;
        };
        let agent = &self.session.identity().agent;
        if let Err(failure) = learner.experienced(agent, experiences).await {
            let why = failure.message;
            tracing::warn!(%agent, %why, "cannot keep what happened in an environment");
        }
    }
}

/// Takes the steps, in parallel, and gives what came of each in their order. When it is dropped, what
/// is still under way is given up.
async fn step_all(planned: Vec<Planned>, for_learning: bool) -> Result<Vec<Taken>, Failure> {
    let size = planned.len().div_ceil(*THREADS).max(CHUNK);
    if planned.len() <= size {
        return step_chunk(planned, for_learning).await;
    }
    let mut tasks = JoinSet::new();
    let mut planned = planned.into_iter();
    let mut count: usize = 0;
    loop {
        let chunk: Vec<_> = planned.by_ref().take(size).collect();
        if chunk.is_empty() {
            break;
        }
        let index = count;
        tasks.spawn(async move { (index, step_chunk(chunk, for_learning).await) });
        count = count.saturating_add(1);
    }
    let chunks = gather(tasks, std::iter::repeat_with(|| None).take(count).collect()).await?;
    let mut all = Vec::new();
    for chunk in chunks {
        all.extend(chunk?);
    }
    Ok(all)
}

/// Takes some steps. Most worlds answer at once; the others are waited for together.
async fn step_chunk(planned: Vec<Planned>, for_learning: bool) -> Result<Vec<Taken>, Failure> {
    let count = planned.len();
    let Begun { done, late, slow } = begin_chunk(planned, for_learning);
    if late.is_empty() {
        return Ok(done);
    }
    let places = std::iter::repeat_with(|| None).take(late.len()).collect();
    let mut slow = gather(slow, places).await?.into_iter();
    let (mut done, mut late) = (done.into_iter(), late.into_iter().peekable());
    let in_order = (0..count).filter_map(|index| match late.next_if_eq(&index) {
        Some(_) => slow.next(),
        None => done.next(),
    });
    Ok(in_order.collect())
}

/// Steps that have begun.
struct Begun {
    /// What came of those in worlds that answer at once.
    done: Vec<Taken>,
    /// Which of the steps take their time,
    late: Vec<usize>,
    /// and what comes of them, by their places in that list.
    slow: JoinSet<(usize, Taken)>,
}

fn begin_chunk(planned: Vec<Planned>, for_learning: bool) -> Begun {
    let mut begun = Begun {
        done: Vec::with_capacity(planned.len()),
        late: Vec::new(),
        slow: JoinSet::new(),
    };
    let now = (Moment::now(), for_learning);
    for (index, Planned { episode, action }) in planned.into_iter().enumerate() {
        match episode.step_at_once(action, now) {
            Ok(taken) => begun.done.push(taken),
            Err(action) => {
                let (step, place) = (Planned { episode, action }, begun.late.len());
                begun.late.push(index);
                let step = async move { (place, step_one(step, for_learning).await) };
                begun.slow.spawn(step);
            }
        }
    }
    begun
}

/// A step that is refused is seen in the observation: the others are taken all the same.
async fn step_one(planned: Planned, for_learning: bool) -> Taken {
    match planned.episode.step(planned.action, for_learning).await {
        Ok(taken) => taken,
        Err(failure) => Taken {
            observation: planned.episode.refused(&failure).await,
            experience: None,
        },
    }
}

/// Puts what tasks give into the places that wait for it.
async fn gather<T: Send + 'static>(
    mut tasks: JoinSet<(usize, T)>,
    mut places: Vec<Option<T>>,
) -> Result<Vec<T>, Failure> {
    let crashed = || failures::failed("an environment crashed; the host's log says more");
    while let Some(joined) = tasks.join_next().await {
        let (index, value) = joined.map_err(|_| crashed())?;
        if let Some(place) = places.get_mut(index) {
            *place = Some(value);
        }
    }
    places
        .into_iter()
        .collect::<Option<_>>()
        .ok_or_else(crashed)
}
