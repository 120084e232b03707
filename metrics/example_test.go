package metrics_test

import (
	"context"
	"expvar"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rdmaloop/rdmaloop/metrics"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A program offers its counters to Prometheus at /metrics, and as JSON at /debug/vars.
func Example() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	device, err := soft.Open(nil)
	check(err)
	defer func() { check(device.Close()) }()
	engine, err := reactor.New(device, reactor.BaseHandler{}, nil)
	check(err)
	defer func() { check(engine.Shutdown(context.Background())) }()

	collector, err := metrics.NewCollector(engine)
	check(err)
	prometheus.MustRegister(collector)
	http.Handle("/metrics", promhttp.Handler())
	expvar.Publish("rdmaloop", metrics.Expvar(engine)) // package expvar serves /debug/vars

	// A program calls http.ListenAndServe.
	server := httptest.NewServer(http.DefaultServeMux)
	defer server.Close()
	for _, path := range []string{"/metrics", "/debug/vars"} {
		response, err := http.Get(server.URL + path)
		check(err)
		page, err := io.ReadAll(response.Body)
		check(err)
		check(response.Body.Close())
		fmt.Println(path, response.Status, strings.Contains(string(page), `rdmaloop_loop_conns{loop="0"} 0`), strings.Contains(string(page), `"conns":0`))
	}
	// Output:
	// /metrics 200 OK true false
	// /debug/vars 200 OK false true
}
