package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ucxLatencies = `stdin,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
p50,[thread 0] 124,4005.961,4031.355,4031.355,0.02,0.02,248,248
[1795266120.250638] [host:5785 :0]   perftest.c:405  UCX  WARN  something, or other
p50,30000,0.160,0.170,0.170,358.79,358.79,5878382,5878382

p99,30000,0.200,0.154,0.156,395.27,395.27,6476056,6476056
p999,  30000,14.044,0.078,0.078,779.67,779.67,12774076,12774076
`

func TestParseUCX(t *testing.T) {
	figures, err := parseUCX(strings.NewReader(ucxLatencies))
	require.NoError(t, err)
	require.Equal(t, []ucxFigure{
		{160 * time.Nanosecond, 5878382},
		{200 * time.Nanosecond, 6476056},
		{14044 * time.Nanosecond, 12774076},
	}, figures)
}

func TestParseUCXRejects(t *testing.T) {
	const header = "a,1.0_percentile_lat,overall_mr\n"
	for name, text := range map[string]string{
		"nothing":        "",
		"a log":          "[1.5] perftest.c:405  UCX  ERROR client failed\n",
		"a header alone": header,
		"no number":      header + "a,x,1\n",
		"no rate":        header + "a,1,\n",
		"not a time":     header + "a,NaN,1\n",
		"backwards":      header + "a,-1,1\n",
		"for ever":       header + "a,1e300,1\n",
		"stands still":   header + "a,1,0\n",
		"beyond light":   header + "a,1,+Inf\n",
		"another table":  "a,b,c\n1,2,3\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseUCX(strings.NewReader(text))
			require.Error(t, err)
		})
	}
}

func FuzzParseUCX(f *testing.F) {
	f.Add(ucxLatencies)
	f.Add("a,1.0_percentile_lat,overall_mr\na,1,1\n")
	f.Add("a,1.0_percentile_lat,overall_mr\na,-Inf,0x1p-2\n")
	f.Fuzz(func(t *testing.T, text string) {
		figures, err := parseUCX(strings.NewReader(text))
		if err != nil {
			require.Empty(t, figures)
			return
		}
		require.NotEmpty(t, figures)
		for _, figure := range figures {
			require.GreaterOrEqual(t, figure.Percentile, time.Duration(0))
			require.LessOrEqual(t, figure.Percentile, hangTimeout)
			require.Positive(t, figure.Rate)
		}
	})
}
