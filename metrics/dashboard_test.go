package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// An exported is the set of the metrics that an engine exports, as a query names them: by
// name, with the names of their labels.
type exported map[string][]string

func exportedBy(families []*dto.MetricFamily) exported {
	all := exported{}
	for _, f := range families {
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			all[f.GetName()+"_bucket"] = append(labels, "le")
			all[f.GetName()+"_sum"], all[f.GetName()+"_count"] = labels, labels
		} else {
			all[f.GetName()] = labels
		}
	}
	return all
}

var (
	quoted   = regexp.MustCompile(`"[^"]*"`)
	interval = regexp.MustCompile(`\[(\$__rate_interval|\d+[smh])\]`)
	selector = regexp.MustCompile(`\{([^{}]*)\}`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring) ?\(([^()]*)\)`)
	word     = regexp.MustCompile(`[a-zA-Z_:][\w:]*`)
)

// check returns what a query of PromQL names that is not exported: metrics and labels, and
// words that no query of the dashboard should have.
func (e exported) check(query string) (unknown []string) {
	functions := []string{"sum", "max", "min", "avg", "count", "rate", "increase", "histogram_quantile", "label_values", "bool"}
	scraped := []string{"instance", "job"} // labels that Prometheus adds
	text := interval.ReplaceAllString(quoted.ReplaceAllString(query, ""), "")
	var labels []string
	for _, pattern := range []*regexp.Regexp{selector, grouping} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			labels = append(labels, word.FindAllString(m[1], -1)...)
		}
		text = pattern.ReplaceAllString(text, "")
	}
	if values, ok := strings.CutPrefix(text, "label_values("); ok { // a function of Grafana
		metric, label, _ := strings.Cut(strings.TrimSuffix(values, ")"), ", ")
		labels, text = append(labels, label), metric
	}
	var metrics []string
	for _, w := range word.FindAllString(text, -1) {
		switch {
		case slices.Contains(functions, w):
		case e[w] != nil:
			metrics = append(metrics, w)
		default:
			unknown = append(unknown, w)
		}
	}
	for _, label := range labels {
		if !slices.Contains(scraped, label) && !slices.ContainsFunc(metrics, func(m string) bool { return slices.Contains(e[m], label) }) {
			unknown = append(unknown, label)
		}
	}
	if len(metrics) == 0 {
		unknown = append(unknown, "no metric")
	}
	return unknown
}

// TestDashboard checks that the queries of the dashboard name exported metrics and labels,
// that each panel has a query, and that each histogram has a panel.
func TestDashboard(t *testing.T) {
	_, families := gather(t, newCollector(t, startMeasuring(t, softDevices(t), 1, 1)))
	known := exportedBy(families)
	for query, want := range map[string][]string{
		`sum by (loop) (rate(rdmaloop_loop_messages_total{instance=~"x"}[5m]))`:                   nil,
		`histogram_quantile(0.5, sum by (le) (rate(rdmaloop_loop_batch_completions_bucket[5m])))`: nil,
		`rate(rdmaloop_loop_message_total[5m])`:                                                   {"rdmaloop_loop_message_total", "no metric"},
		`sum by (cause) (rdmaloop_loop_conns{device=~"$device"})`:                                 {"device", "cause"},
		`sum(rdmaloop_loop_batch_completions)`:                                                    {"rdmaloop_loop_batch_completions", "no metric"},
		`label_values(rdmaloop_device_up, loop)`:                                                  {"loop"},
	} {
		require.Equal(t, want, known.check(query), query)
	}

	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Type, Definition string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	queries, all := 0, ""
	check := func(query string) {
		queries++
		all += query
		require.Empty(t, known.check(query), query)
	}
	for _, p := range dashboard.Panels {
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			check(target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			check(v.Definition)
		}
	}
	require.Greater(t, queries, 40)
	for name := range known {
		if strings.HasSuffix(name, "_bucket") {
			require.Contains(t, all, name)
		}
	}
}
