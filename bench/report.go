package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// printTable writes a line for each row.
func printTable(w io.Writer, rows []Row) (err error) {
	for _, r := range rows {
		_, e := fmt.Fprintf(w, "%v: p50 %.2f µs, p99 %.2f µs, p99.9 %.2f µs, max %.2f µs, %.0f messages/s, %.0f MB/s, CPU %.0f ns, %.2f allocations, %.3f switches, %.0f B resident\n",
			r.Case, r.P50/1e3, r.P99/1e3, r.P999/1e3, r.Max/1e3, r.MsgsPerSec, r.BytesPerSec/1e6, r.CPU, r.Allocs, r.CtxSwitches, r.RSSPerConn)
		if err == nil {
			err = e
		}
	}
	return err
}

// writeJSON writes the rows as an array, to a file or for "-" to w.
func writeJSON(name string, w io.Writer, rows []Row) error {
	text, err := json.MarshalIndent(rows, "", "\t")
	if err != nil {
		return err
	}
	if name == "-" {
		_, err = w.Write(append(text, '\n'))
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
