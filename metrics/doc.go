// Package metrics exports the counters of package reactor and of RDMA devices: to Prometheus
// with NewCollector, and to package expvar with Expvar. It is a module of its own, so that
// programs without metrics do not depend on Prometheus.
//
// Nothing runs on the loops for it. A loop publishes a copy of its counters every
// millisecond, and a scrape reads the copies. So a scrape never waits for a loop, and a loop
// whose callback does not return is exported with the numbers from before the callback: its
// rdmaloop_loop_turns_total stands still. A loop that runs has at least one turn in
// reactor.Limits.SafetyTimeout, 100 ms by default.
//
// If reactor.Config.LatencyEvery is set, NewCollector also exports histograms of what the loops
// measure, for percentiles over time.
//
// docs/metrics.md lists the metrics, and dashboard.json is a dashboard for Grafana.
package metrics
