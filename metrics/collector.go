package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// NewCollector returns a collector for the loops of an engine, and for the devices of its
// provider. Register it with a prometheus.Registerer. The engine need not have started, and
// may end; its last numbers are then exported until the collector is unregistered. Any
// goroutine may call NewCollector and the collector.
//
// The label "loop" is reactor.Loop.Index, and "device" and "port" are those of package verbs.
// No label depends on a connection. The times of reactor.Loop.Latency are exported if
// reactor.Config.LatencyEvery is set. For several engines in one process, give each a label of
// its own:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"engine": "orders"}, registerer).Register(collector)
//
// If the counters of a device can not be read, they are missing, and rdmaloop_device_up is 0.
// A device that has no counters is left out. The errors are those of verbs.Provider.Devices
// and of verbs.Device.Counters, and a *verbs.ParamError if the engine is nil.
func NewCollector(e *reactor.Engine) (prometheus.Collector, error) {
	if e == nil {
		return nil, fmt.Errorf("make collector: %w", &verbs.ParamError{Field: "engine", NotNumber: true, Reason: "missing"})
	}
	c := &collector{descs: make(map[string]*prometheus.Desc)}
	for i := range e.NumLoops() {
		l := c.newLoop(e.Loop(i))
		if e.LatencyEvery() > 0 {
			c.addLatencies(l)
		}
		c.loops = append(c.loops, l)
	}
	devices, err := e.Provider().Devices()
	if err != nil {
		return nil, fmt.Errorf("make collector: %w", err)
	}
	for _, dev := range devices {
		for i := range dev.Attr().NumPorts {
			if err := c.addPort(dev, uint8(i+1)); err != nil {
				return nil, fmt.Errorf("make collector: %w", err)
			}
		}
	}
	return c, nil
}

// A collector implements prometheus.Collector. It is not changed after NewCollector.
type collector struct {
	descs  map[string]*prometheus.Desc // by name
	loops  []*loop
	ports  []*port
	series int // number of samples of a scrape at most, without histograms
}

// A series is one metric with its labels.
type series struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair // sorted by name
	gauge  bool
	unit   float64 // factor for the value
}

// A loop has the series of a loop, in the order of reactor.Stats.All. Those of the elements
// of Stats.Batches are nil, because batches has them.
type loop struct {
	*reactor.Loop
	series  []*series
	info    *series
	batches *series
	// latencies has the histograms in the order of the variable latencies. It is nil if the
	// loop measures nothing.
	latencies []*series
}

// A port has the series of a port of a device, by the names of the counters.
type port struct {
	dev    verbs.Device
	num    uint8
	series map[string]*series
	up     *series
}

// A split is a metric whose label says which of several counters of reactor.Stats it is.
type split struct{ metric, label, help string }

var (
	timeByState  = split{"time_seconds_total", "state", "time of the loop by state: busy is awake with work, spin awake without work, slept asleep or between calls of Poll"}
	wakesByCause = split{"wakes_total", "cause", "sleeps by what has ended them; limit is the timeout of RunOnce, and safety Config.Limits.SafetyTimeout"}
)

// splitOf returns the metric that has a counter of reactor.Stats as one of its parts, and the
// value of the label.
func splitOf(counter string) (s split, value string, ok bool) {
	switch counter {
	case "busy", "spin", "slept":
		return timeByState, counter, true
	}
	value, ok = strings.CutPrefix(counter, "wakes_")
	return wakesByCause, value, ok
}

// batchPrefix begins the names of the elements of reactor.Stats.Batches.
const batchPrefix = "batches_"

func (c *collector) newLoop(l *reactor.Loop) *loop {
	out := &loop{Loop: l}
	label := pair("loop", strconv.Itoa(l.Index()))
	add := func(name, help string, unit float64, gauge bool, labels ...*dto.LabelPair) *series {
		c.series++
		return c.newSeries("rdmaloop_loop_"+name, help, unit, gauge, labels...)
	}
	stats := l.Stats()
	for k := range stats.All() {
		unit, gauge := unitOf(k), k.Gauge
		if s, value, ok := splitOf(k.Name); ok {
			labels := []*dto.LabelPair{pair(s.label, value), label}
			if s.label > "loop" {
				labels[0], labels[1] = labels[1], labels[0]
			}
			out.series = append(out.series, add(s.metric, s.help, unit, gauge, labels...))
		} else if strings.HasPrefix(k.Name, batchPrefix) {
			out.series = append(out.series, nil)
		} else {
			out.series = append(out.series, add(metricName(k), k.Help, unit, gauge, label))
		}
	}
	out.info = add("info", "1, with the name of the loop", 1, true, label, pair("name", l.Name()))
	out.batches = add("batch_completions", "completions that a turn of the loop found on a device, without turns that found none", 1, true, label)
	return out
}

// addPort adds a port of a device, unless it has no counters.
func (c *collector) addPort(dev verbs.Device, num uint8) error {
	labels := []*dto.LabelPair{pair("device", dev.Name()), pair("port", strconv.Itoa(int(num)))}
	p := &port{dev: dev, num: num, series: make(map[string]*series)}
	list, err := dev.Counters(num)
	if errors.Is(err, verbs.ErrNotSupported) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, k := range list {
		help := k.Help
		if help == "" {
			help = "counter of the driver, as in hw_counters of sysfs"
		}
		p.series[k.Name] = c.newSeries("rdmaloop_device_"+metricName(k), help, unitOf(k), k.Gauge, labels...)
	}
	p.up = c.newSeries("rdmaloop_device_up", "1 if the counters of the port could be read, else 0", 1, true, labels...)
	c.series += len(list) + 1
	c.ports = append(c.ports, p)
	return nil
}

// newSeries returns a series. Series with the same name share the description.
func (c *collector) newSeries(name, help string, unit float64, gauge bool, labels ...*dto.LabelPair) *series {
	desc := c.descs[name]
	if desc == nil {
		var names []string
		for _, l := range labels {
			names = append(names, l.GetName())
		}
		desc = prometheus.NewDesc(name, help, names, nil)
		c.descs[name] = desc
	}
	return &series{desc: desc, labels: labels, gauge: gauge, unit: unit}
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// metricName returns the name of a counter for Prometheus, without a prefix. Drivers may use
// other characters than Prometheus allows.
func metricName(k verbs.Counter) string {
	name := strings.Map(func(r rune) rune {
		if r < 128 && (r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z') {
			return r
		}
		return '_'
	}, k.Name)
	switch {
	case k.Unit == "nanoseconds":
		name += "_seconds"
	case k.Unit != "" && !strings.HasSuffix(name, "_"+k.Unit):
		name += "_" + k.Unit
	}
	if !k.Gauge {
		name += "_total"
	}
	return name
}

// unitOf returns the factor that makes a value of the counter one in a base unit.
func unitOf(k verbs.Counter) float64 {
	if k.Unit == "nanoseconds" {
		return 1e-9
	}
	return 1
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It reads the copies of the counters that the loops
// publish, and the counters of the devices. For a device of package rdmacore the kernel reads
// them, which may ask the card.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	samples := make([]sample, 0, c.series) // one allocation for all
	send := func(s *series, value uint64) {
		if s != nil {
			samples = append(samples, sample{s, float64(value) * s.unit})
			ch <- &samples[len(samples)-1]
		}
	}
	for _, l := range c.loops {
		stats, i := l.Stats(), 0
		for k := range stats.All() {
			send(l.series[i], k.Value)
			i++
		}
		send(l.info, 1)
		ch <- &histogram{l.batches, batchBounds[:], stats.Batches[:], float64(stats.Completions)}
		l.collectLatencies(ch)
	}
	for _, p := range c.ports {
		list, err := p.dev.Counters(p.num)
		up := uint64(0)
		if err == nil {
			up = 1
		}
		send(p.up, up)
		for _, k := range list {
			send(p.series[k.Name], k.Value)
		}
	}
}

// A sample is the value of a series in one scrape. It implements prometheus.Metric, as
// prometheus.NewConstMetric does, which makes new labels for each scrape: that takes longer
// than all else.
type sample struct {
	*series
	value float64
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(to *dto.Metric) error {
	to.Label = s.labels[:len(s.labels):len(s.labels)]
	if s.gauge {
		to.Gauge = &dto.Gauge{Value: &s.value}
	} else {
		to.Counter = &dto.Counter{Value: &s.value}
	}
	return nil
}

// A histogram is the value of a histogram in one scrape. It implements prometheus.Metric.
type histogram struct {
	*series
	bounds []float64 // upper bounds; the last bucket has none
	counts []uint64  // of each bucket, one more than bounds
	sum    float64
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric.
func (h *histogram) Write(to *dto.Metric) error {
	buckets, upTo := make([]dto.Bucket, len(h.bounds)), slices.Clone(h.counts)
	out := &dto.Histogram{SampleSum: &h.sum}
	for i := range upTo {
		if i > 0 {
			upTo[i] += upTo[i-1]
		}
		out.SampleCount = &upTo[i] // of the last one
		if i < len(buckets) {
			buckets[i].UpperBound, buckets[i].CumulativeCount = &h.bounds[i], &upTo[i]
			out.Bucket = append(out.Bucket, &buckets[i])
		}
	}
	to.Label, to.Histogram = h.labels[:len(h.labels):len(h.labels)], out
	return nil
}

// batchBounds are the upper bounds of reactor.Stats.Batches, whose element i counts up to
// 2^(i+1)-1 completions.
var batchBounds = func() (bounds [len(reactor.Stats{}.Batches) - 1]float64) {
	for i := range bounds {
		bounds[i] = float64(uint64(2)<<i - 1)
	}
	return bounds
}()
