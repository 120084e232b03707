package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/metrics"
	"github.com/rdmaloop/rdmaloop/monitor"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A handler is both sides of a connection. The side that has dialed sends messages, one
// after the other, and the other side answers them.
type handler struct {
	reactor.BaseHandler
	left int        // number of messages to send
	done chan error // gets the reason why the connection that was dialed has ended
}

func (h *handler) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if h.done == nil || h.left > 0 {
		h.left--
		if err := c.Send(msg.Data(), nil); err != nil {
			c.Abort(err)
		}
		return
	}
	c.Close()
}

func (h *handler) OnOpen(c *reactor.Conn) {
	if h.done != nil {
		h.left--
		if err := c.Send([]byte("ping"), nil); err != nil {
			c.Abort(err)
		}
	}
}

func (h *handler) OnClose(_ *reactor.Conn, err error) {
	if h.done != nil {
		h.done <- err
	}
}

func (h *handler) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	h.done <- err
}

// openSoft returns a provider whose device uses the wire path, which the end of the test
// closes.
func openSoft(t testing.TB) *soft.Provider {
	p, err := soft.Open(&soft.Config{Path: soft.PathWire, WirePort: freeport.UDP(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// start starts an engine, which the end of the test shuts down.
func start(t testing.TB, p *devices, loops int) *reactor.Engine {
	return startMeasuring(t, p, loops, 0)
}

// startMeasuring is start with Config.LatencyEvery.
func startMeasuring(t testing.TB, p *devices, loops, every int) *reactor.Engine {
	e, err := reactor.New(p, &handler{}, &reactor.Config{NumLoops: loops, Idle: reactor.IdleEvent, LatencyEvery: every})
	require.NoError(t, err)
	require.NoError(t, e.Start())
	t.Cleanup(func() { require.NoError(t, e.Shutdown(context.Background())) })
	return e
}

// exchange sends messages from one loop of the engine to another one, and back.
func exchange(t testing.TB, e *reactor.Engine, messages int) {
	ln, err := e.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	h := &handler{left: messages, done: make(chan error, 1)}
	require.NoError(t, e.Dial(ln.Addr(), &reactor.DialOptions{Handler: h}))
	require.NoError(t, <-h.done)
	require.NoError(t, ln.Close())
}

// devices is a provider whose list of devices is another one.
type devices struct {
	*soft.Provider
	list []verbs.Device
}

func (d *devices) Devices() ([]verbs.Device, error) { return slices.Clone(d.list), nil }

// softDevices returns a provider with its own device, and others.
func softDevices(t testing.TB, others ...verbs.Device) *devices {
	p := openSoft(t)
	own, err := p.Devices()
	require.NoError(t, err)
	return &devices{p, append(own, others...)}
}

// A device is a device with another name, whose counters may fail.
type device struct {
	verbs.Device
	name string
	err  error
}

func (d *device) Name() string { return d.name }

func (d *device) Counters(port uint8) ([]verbs.Counter, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.Device.Counters(port)
}

// another returns a device with a name.
func another(t testing.TB, name string) *device {
	list, err := openSoft(t).Devices()
	require.NoError(t, err)
	return &device{Device: list[0], name: name}
}

// A gathered has metrics by name and labels, as in rdmaloop_loop_conns{loop="0"}.
type gathered map[string]*dto.Metric

// gather registers collectors, and gathers their metrics. A pedantic registry checks that
// Describe and Collect agree.
func gather(t testing.TB, collectors ...prometheus.Collector) (gathered, []*dto.MetricFamily) {
	reg := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		require.NoError(t, reg.Register(c))
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	all := gathered{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m
		}
	}
	return all, families
}

// value returns the value of a counter or a gauge.
func (g gathered) value(t testing.TB, name string) float64 {
	m := g[name]
	require.NotNil(t, m, name)
	if m.Gauge != nil {
		return m.Gauge.GetValue()
	}
	require.NotNil(t, m.Counter, name)
	return m.Counter.GetValue()
}

func newCollector(t testing.TB, e *reactor.Engine) prometheus.Collector {
	c, err := metrics.NewCollector(e)
	require.NoError(t, err)
	return c
}

// TestValues checks that the metrics have the values of Stats and Counters, in base units.
func TestValues(t *testing.T) {
	p := softDevices(t)
	e := start(t, p, 2)
	region, err := e.Alloc(1<<20, verbs.AccessLocalWrite)
	require.NoError(t, err)
	exchange(t, e, 1000)
	c := newCollector(t, e)
	got, _ := gather(t, c)
	require.EqualValues(t, 1<<20, got.value(t, `rdmaloop_loop_region_bytes{loop="0"}`))
	require.GreaterOrEqual(t, got.value(t, `rdmaloop_device_alloc_bytes{device="soft0",port="1"}`), float64(1<<20))
	require.NoError(t, region.Close())
	require.NoError(t, e.Shutdown(t.Context()))

	got, _ = gather(t, c)
	require.Positive(t, e.Stats().Messages)
	for i := range 2 {
		s, loop := e.Loop(i).Stats(), fmt.Sprintf("loop=\"%d\"", i)
		exported := 2 // info and the histogram
		for k := range s.All() {
			if strings.HasPrefix(k.Name, "batches_") {
				continue
			}
			exported++
			name, want := "rdmaloop_loop_"+k.Name, float64(k.Value)
			cause, wake := strings.CutPrefix(k.Name, "wakes_")
			switch {
			case wake:
				name = fmt.Sprintf("rdmaloop_loop_wakes_total{cause=%q,%s}", cause, loop)
			case k.Name == "busy" || k.Name == "spin" || k.Name == "slept":
				name = fmt.Sprintf("rdmaloop_loop_time_seconds_total{%s,state=%q}", loop, k.Name)
			case k.Unit == "nanoseconds":
				name += "_seconds{" + loop + "}"
			case k.Gauge:
				name += "{" + loop + "}"
			default:
				name += "_total{" + loop + "}"
			}
			if k.Unit == "nanoseconds" {
				want /= 1e9
			}
			require.InEpsilon(t, 1+want, 1+got.value(t, name), 1e-9, name)
		}
		require.EqualValues(t, 1, got.value(t, fmt.Sprintf("rdmaloop_loop_info{%s,name=\"loop %d\"}", loop, i)))
		requireBatches(t, got["rdmaloop_loop_batch_completions{"+loop+"}"], &s)
		for name := range got {
			if strings.Contains(name, loop) {
				exported--
			}
		}
		require.Zero(t, exported, "metrics that no counter has")
	}
	list, err := p.list[0].Counters(1)
	require.NoError(t, err)
	for _, k := range list {
		name := "rdmaloop_device_" + k.Name
		if !k.Gauge {
			name += "_total"
		}
		require.EqualValues(t, k.Value, got.value(t, name+`{device="soft0",port="1"}`), name)
	}
	require.Positive(t, got.value(t, `rdmaloop_device_sent_pkts_total{device="soft0",port="1"}`))
	require.EqualValues(t, 1, got.value(t, `rdmaloop_device_up{device="soft0",port="1"}`))
}

// requireBatches checks that a histogram has the batches of a loop.
func requireBatches(t *testing.T, m *dto.Metric, s *reactor.Stats) {
	h := m.GetHistogram()
	require.EqualValues(t, s.Completions, h.GetSampleSum())
	require.Len(t, h.Bucket, len(s.Batches)-1)
	require.EqualValues(t, 1, h.Bucket[0].GetUpperBound())
	require.EqualValues(t, 15, h.Bucket[3].GetUpperBound())
	sum := uint64(0)
	for i, n := range s.Batches {
		sum += n
		if i < len(h.Bucket) {
			require.Equal(t, sum, h.Bucket[i].GetCumulativeCount(), i)
		}
	}
	require.Equal(t, sum, h.GetSampleCount())
}

// TestNames checks the names, units and descriptions with the linter of Prometheus.
func TestNames(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	strange := another(t, "strange")
	reg.MustRegister(newCollector(t, startMeasuring(t, softDevices(t, &counting{strange}), 1, 1)))
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	n, err := testutil.GatherAndCount(reg, "rdmaloop_device_ip4_in_octets_total", "rdmaloop_device_wait_seconds_total", "rdmaloop_device_rx_bytes_total")
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

// A counting is a device with counters that have no description, other characters, and
// units.
type counting struct{ *device }

func (c *counting) Counters(uint8) ([]verbs.Counter, error) {
	return []verbs.Counter{{Name: "ip4-in.octets", Value: 1}, {Name: "rx", Unit: "bytes"}, {Name: "wait", Unit: "nanoseconds"}}, nil
}

// TestSeveralEngines checks that the engines of a process need labels, and that a constant
// label makes their metrics different.
func TestSeveralEngines(t *testing.T) {
	one, two := newCollector(t, start(t, softDevices(t), 1)), newCollector(t, start(t, softDevices(t), 1))
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(one))
	require.Error(t, reg.Register(two))
	reg = prometheus.NewPedanticRegistry()
	for name, c := range map[string]prometheus.Collector{"one": one, "two": two} {
		require.NoError(t, prometheus.WrapRegistererWith(prometheus.Labels{"engine": name}, reg).Register(c))
	}
	for range 2 { // The labels of a series are used again.
		n, err := testutil.GatherAndCount(reg, "rdmaloop_loop_turns_total", "rdmaloop_device_sent_pkts_total")
		require.NoError(t, err)
		require.Equal(t, 4, n)
	}
}

// TestBlockedLoop checks that a scrape does not wait for a loop whose callback does not
// return, and that the turns of the loop stand still.
func TestBlockedLoop(t *testing.T) {
	e := start(t, softDevices(t), 2)
	exchange(t, e, 10)
	c := newCollector(t, e)
	blocked, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, e.Loop(0).Post(func() {
		close(blocked)
		<-release
	}))
	<-blocked
	first, _ := gather(t, c)
	second, _ := gather(t, c)
	close(release)
	const turns = `rdmaloop_loop_turns_total{loop="0"}`
	require.Positive(t, first.value(t, turns))
	require.Equal(t, first.value(t, turns), second.value(t, turns))
}

// TestDevices checks the metrics of several devices, of one without counters, and of one
// whose counters can not be read any more.
func TestDevices(t *testing.T) {
	second, silent := another(t, "soft1"), another(t, "silent")
	silent.err = &verbs.FeatureError{Feature: "counters", Reason: errors.New("old driver")}
	e := start(t, softDevices(t, second, silent), 1)
	c := newCollector(t, e)
	got, _ := gather(t, c)
	require.EqualValues(t, 1, got.value(t, `rdmaloop_device_up{device="soft1",port="1"}`))
	require.Contains(t, got, `rdmaloop_device_sent_pkts_total{device="soft1",port="1"}`)
	require.NotContains(t, got, `rdmaloop_device_up{device="silent",port="1"}`)

	second.err = errors.New("gone")
	got, _ = gather(t, c)
	require.EqualValues(t, 0, got.value(t, `rdmaloop_device_up{device="soft1",port="1"}`))
	require.EqualValues(t, 1, got.value(t, `rdmaloop_device_up{device="soft0",port="1"}`))
	require.NotContains(t, got, `rdmaloop_device_sent_pkts_total{device="soft1",port="1"}`)
	require.Contains(t, got, `rdmaloop_loop_turns_total{loop="0"}`)

	_, err := metrics.NewCollector(e)
	require.ErrorIs(t, err, second.err)
	_, err = metrics.NewCollector(nil)
	require.ErrorAs(t, err, new(*verbs.ParamError))
}

// TestExpvar checks that the variable has the values of Stats and Counters.
func TestExpvar(t *testing.T) {
	broken := another(t, "broken")
	p := softDevices(t, broken)
	e := start(t, p, 2)
	exchange(t, e, 10)
	require.NoError(t, e.Shutdown(t.Context()))
	broken.err = errors.New("gone")
	var got monitor.Snapshot
	require.NoError(t, json.Unmarshal([]byte(metrics.Expvar(e).String()), &got))
	require.Len(t, got.Loops, 2)
	for i, loop := range got.Loops {
		s := e.Loop(i).Stats()
		for k := range s.All() {
			require.Equal(t, k.Value, loop.Counters[k.Name], k.Name)
		}
	}
	require.Equal(t, 1, len(got.Devices))
	require.Equal(t, "soft0", got.Devices[0].Name)
	require.Equal(t, 1, got.Devices[0].Port)
	list, err := p.list[0].Counters(1)
	require.NoError(t, err)
	for _, k := range list {
		require.Equal(t, k.Value, got.Devices[0].Counters[k.Name], k.Name)
	}
	require.Equal(t, "null", metrics.Expvar(nil).String())
}

// BenchmarkScrape measures a scrape of 8 loops and 2 devices: what Collect does, and a whole
// page for HTTP, most of which is the work of the client library for metrics of any kind.
func BenchmarkScrape(b *testing.B) {
	c := newCollector(b, start(b, softDevices(b, another(b, "soft1")), 8))
	b.Run("collect", func(b *testing.B) { benchmarkCollect(b, c) })
	measured := startMeasuring(b, softDevices(b, another(b, "soft1")), 8, 1)
	exchange(b, measured, 1000)
	b.Run("latency", func(b *testing.B) { benchmarkCollect(b, newCollector(b, measured)) })
	b.Run("page", func(b *testing.B) {
		reg := prometheus.NewRegistry()
		reg.MustRegister(c)
		page, size := promhttp.HandlerFor(reg, promhttp.HandlerOpts{}), 0
		request := httptest.NewRequest("GET", "/metrics", nil)
		for b.Loop() {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, request)
			size = w.Body.Len()
		}
		b.ReportMetric(float64(size), "B/page")
	})
}

func benchmarkCollect(b *testing.B, c prometheus.Collector) {
	b.ReportAllocs()
	ch, metrics := make(chan prometheus.Metric, 10_000), 0
	for b.Loop() {
		c.Collect(ch)
		for metrics = 0; len(ch) > 0; metrics++ {
			<-ch
		}
	}
	b.ReportMetric(float64(metrics), "metrics")
}
