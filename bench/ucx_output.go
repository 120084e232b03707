package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// A ucxFigure is the result of one test of ucx_perftest.
type ucxFigure struct {
	// Time that the chosen percentile of the last 2,048 messages did not exceed.
	Percentile time.Duration
	// Messages a second in the whole test. A latency test counts both directions.
	Rate float64
}

// Endings of the names of two columns. An example of a name is 50.0_percentile_lat.
const (
	ucxPercentile = "percentile_lat"
	ucxRate       = "overall_mr"
)

var errNoUCXTable = errors.New("no table in the output of ucx_perftest")

// parseUCX parses the output of ucx_perftest -v -b. The output has a header, and then
// one line of results for each test, with times in microseconds. parseUCX skips the log
// and intermediate results.
func parseUCX(r io.Reader) (figures []ucxFigure, err error) {
	var columns []string
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fields := strings.Split(lines.Text(), ",")
		switch {
		case columns == nil:
			if isUCXHeader(fields) {
				columns = fields
			}
		case len(fields) != len(columns) || strings.Contains(lines.Text(), "["):
			// The line has no result.
		default:
			f, err := ucxFigureOf(columns, fields)
			if err != nil {
				return nil, err
			}
			figures = append(figures, f)
		}
	}
	if len(figures) == 0 {
		return nil, errNoUCXTable
	}
	return figures, nil
}

func isUCXHeader(fields []string) bool {
	return ucxColumn(fields, ucxPercentile) >= 0 && ucxColumn(fields, ucxRate) >= 0
}

func ucxColumn(columns []string, suffix string) int {
	for i, name := range columns {
		if strings.HasSuffix(name, suffix) {
			return i
		}
	}
	return -1
}

func ucxFigureOf(columns, fields []string) (f ucxFigure, err error) {
	const longest, fastest = float64(hangTimeout / time.Microsecond), 1e12
	µs, err := ucxNumber(fields[ucxColumn(columns, ucxPercentile)], longest)
	if err != nil {
		return f, err
	}
	f.Percentile = time.Duration(math.Round(µs * 1e3))
	f.Rate, err = ucxNumber(fields[ucxColumn(columns, ucxRate)], fastest)
	if err == nil && f.Rate == 0 {
		err = fmt.Errorf("ucx_perftest: %w", errNothing)
	}
	return f, err
}

// ucxNumber parses a number from 0 to the limit.
func ucxNumber(text string, limit float64) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0, fmt.Errorf("ucx_perftest: %w", err)
	}
	// NaN is out of range, too.
	if !(n >= 0 && n <= limit) {
		return 0, fmt.Errorf("ucx_perftest: %s is not in the range 0 to %g", text, limit)
	}
	return n, nil
}
