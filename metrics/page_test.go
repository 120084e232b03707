package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of docs/metrics.md")

const page = "../docs/metrics.md"

// TestPageTables checks that the tables of docs/metrics.md have the metrics that an engine
// exports. The flag -update writes them.
func TestPageTables(t *testing.T) {
	_, families := gather(t, newCollector(t, startMeasuring(t, softDevices(t), 1, 1)))
	tables := map[string]string{}
	for _, f := range families {
		kind := strings.ToLower(f.GetType().String())
		prefix := strings.Join(strings.SplitAfterN(f.GetName(), "_", 3)[:2], "")
		var labels string
		for _, l := range f.Metric[0].Label {
			if name := l.GetName(); name == "state" || name == "cause" || name == "name" {
				labels = fmt.Sprintf(" `{%s}`", name)
			}
		}
		tables[prefix] += fmt.Sprintf("| `%s`%s | %s | %s |\n", strings.TrimPrefix(f.GetName(), prefix), labels, kind, f.GetHelp())
	}
	require.Len(t, tables, 2)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	got := string(text)
	for prefix, rows := range tables {
		header := fmt.Sprintf("| `%s`... | kind | what it is |\n|---|---|---|\n", prefix)
		old := regexp.MustCompile(regexp.QuoteMeta(header) + `(?:\|.*\n)*`)
		require.Regexp(t, old, got)
		got = old.ReplaceAllLiteralString(got, header+rows)
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(got), 0o600))
		return
	}
	// The whole page would be a long message.
	require.True(t, got == string(text), "other metrics are exported: run go test -run TestPageTables -update in metrics, and look at the difference")
}
