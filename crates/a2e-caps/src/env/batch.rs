//! Steps in many episodes at once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waiting, Poll, Waker};

use a2e_runtime::{BoxFuture, Failure, Session};
use a2e_wire::Object;
use a2e_wire::messages::env::EnvObservation;
use tokio::task::JoinSet;

use super::episode::Episode;
use super::failures;
use super::history::Recorder;

/// Steps that are not worth a task of their own.
const CHUNK: usize = 256;

/// A step to be taken.
pub(super) struct Planned {
    pub(super) episode: Arc<Episode>,
    pub(super) action: Object<'static>,
}

/// Where steps are told of.
#[derive(Debug, Clone)]
pub(super) struct Audience {
    pub(super) session: Arc<Session>,
    pub(super) recorder: Option<Arc<dyn Recorder>>,
}

impl Audience {
    /// Takes a step and tells of it.
    pub(super) async fn step(
        &self,
        episode: &Episode,
        action: Object<'static>,
    ) -> Result<EnvObservation<'static>, Failure> {
        let taken = episode.step(action, self.recorder.is_some()).await?;
        if let (Some(recorder), Some(experience)) = (&self.recorder, taken.experience) {
            recorder.record(&self.session, experience);
        }
        Ok(taken.observation)
    }
}

/// Takes the steps, in parallel, and gives what came of each in their order. When it is dropped, what
/// is still under way is given up.
pub(super) async fn step_all(
    planned: Vec<Planned>,
    audience: &Audience,
) -> Result<Vec<EnvObservation<'static>>, Failure> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let size = planned.len().div_ceil(threads).max(CHUNK);
    if planned.len() <= size {
        return step_chunk(planned, audience.clone()).await;
    }
    let mut tasks = JoinSet::new();
    let mut planned = planned.into_iter();
    let mut count: usize = 0;
    loop {
        let chunk: Vec<_> = planned.by_ref().take(size).collect();
        if chunk.is_empty() {
            break;
        }
        let (index, audience) = (count, audience.clone());
        tasks.spawn(async move { (index, step_chunk(chunk, audience).await) });
        count = count.saturating_add(1);
    }
    let chunks = gather(tasks, vec![None; count]).await?;
    let mut all = Vec::new();
    for chunk in chunks {
        all.extend(chunk?);
    }
    Ok(all)
}

/// Takes some steps. Most worlds answer at once; the others are waited for together.
async fn step_chunk(
    planned: Vec<Planned>,
    audience: Audience,
) -> Result<Vec<EnvObservation<'static>>, Failure> {
    let (done, slow) = begin_chunk(planned, &audience);
    gather(slow, done).await
}

/// What came of the steps of worlds that answer at once, and those that take their time.
fn begin_chunk(
    planned: Vec<Planned>,
    audience: &Audience,
) -> (
    Vec<Option<EnvObservation<'static>>>,
    JoinSet<(usize, EnvObservation<'static>)>,
) {
    let mut done = Vec::with_capacity(planned.len());
    let mut slow = JoinSet::new();
    let mut nobody = Waiting::from_waker(Waker::noop());
    for (index, step) in planned.into_iter().enumerate() {
        let mut step: BoxFuture<'static, _> = Box::pin(step_one(step, audience.clone()));
        match Pin::new(&mut step).poll(&mut nobody) {
            Poll::Ready(observation) => done.push(Some(observation)),
            Poll::Pending => {
                done.push(None);
                slow.spawn(async move { (index, step.await) });
            }
        }
    }
    (done, slow)
}

/// A step that is refused is seen in the observation: the others are taken all the same.
async fn step_one(planned: Planned, audience: Audience) -> EnvObservation<'static> {
    match audience.step(&planned.episode, planned.action).await {
        Ok(observation) => observation,
        Err(failure) => planned.episode.refused(failure).await,
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
