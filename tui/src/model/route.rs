//! How requests for a model are routed at the moment.

/// The overlay that explains a route.
#[derive(Debug)]
pub struct RouteView {
    /// The model id.
    pub model: String,
    /// The route, or why it could not be fetched; `None` until the answer arrives.
    pub route: Option<Result<Route, String>>,
    /// The number of lines that are scrolled out at the top.
    pub scroll: usize,
}

/// The deployments of a model in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Route {
    /// How requests are spread over deployments of the same priority, such as `weighted`.
    pub routing: String,
    /// The wait after which a request is also sent to the next deployment, in milliseconds.
    pub hedge_after_ms: Option<u64>,
    /// The deployments.
    pub steps: Vec<RouteStep>,
}

/// A deployment in its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteStep {
    /// The name of the upstream.
    pub upstream: String,
    /// Its name for the model.
    pub model: String,
    /// The priority; smaller ones are tried first.
    pub priority: u32,
    /// The weight among those of the same priority.
    pub weight: u32,
    /// The share of requests that are tried here first, in per cent; `None` if it depends on the load.
    pub first_percent: Option<f64>,
    /// The requests in flight to the upstream.
    pub in_flight: u32,
    /// The recent time to the head of an answer, in milliseconds.
    pub latency_ms: Option<f64>,
    /// Why it has this place.
    pub reason: String,
}

// === impl RouteView ===

impl RouteView {
    /// Returns the view of a model whose route is being fetched.
    pub fn new(model: String) -> Self {
        Self { model, route: None, scroll: 0 }
    }

    /// Returns the arguments of the `ctl` command that shows the same.
    pub fn arguments(&self) -> Vec<String> {
        ["route", "explain", &self.model].map(str::to_owned).to_vec()
    }
}
