package main

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rdmaloop/rdmaloop/metrics"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// openTelemetry passes the metrics of a registry on to OpenTelemetry.
func openTelemetry(registry prometheus.Gatherer, exporter metric.Exporter) *metric.MeterProvider {
	producer := bridge.NewMetricProducer(bridge.WithGatherer(registry))
	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(producer))
	return metric.NewMeterProvider(metric.WithReader(reader))
}

// exporter keeps the metrics that it has got last.
type exporter struct {
	metric.Exporter
	names map[string]metricdata.Aggregation
}

func (e *exporter) Temporality(k metric.InstrumentKind) metricdata.Temporality {
	return metric.DefaultTemporalitySelector(k)
}

func (e *exporter) Aggregation(k metric.InstrumentKind) metric.Aggregation {
	return metric.DefaultAggregationSelector(k)
}

func (e *exporter) Export(_ context.Context, got *metricdata.ResourceMetrics) error {
	e.names = map[string]metricdata.Aggregation{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			e.names[m.Name] = m.Data
		}
	}
	return nil
}

func (e *exporter) ForceFlush(context.Context) error { return nil }

func (e *exporter) Shutdown(context.Context) error { return nil }

// TestOpenTelemetry checks that the bridge of OpenTelemetry passes on the metrics of an
// engine.
func TestOpenTelemetry(t *testing.T) {
	device, err := soft.Open(nil)
	require.NoError(t, err)
	engine, err := reactor.New(device, echo{}, nil)
	require.NoError(t, err)
	collector, err := metrics.NewCollector(engine)
	require.NoError(t, err)
	registry, to := prometheus.NewRegistry(), &exporter{}
	require.NoError(t, registry.Register(collector))
	provider := openTelemetry(registry, to)
	require.NoError(t, provider.ForceFlush(t.Context()))
	require.IsType(t, metricdata.Sum[float64]{}, to.names["rdmaloop_loop_messages_total"])
	require.IsType(t, metricdata.Gauge[float64]{}, to.names["rdmaloop_loop_conns"])
	require.IsType(t, metricdata.Histogram[float64]{}, to.names["rdmaloop_loop_batch_completions"])
	require.NoError(t, provider.Shutdown(t.Context()))
	require.NoError(t, engine.Shutdown(t.Context()))
	require.NoError(t, device.Close())
}
