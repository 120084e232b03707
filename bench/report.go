package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// output prints the rows as a table, as JSON and as plots, as the options request.
func output(rows []Row, o options, stdout io.Writer) (err error) {
	rows = withRatios(rows)
	if o.json != "-" {
		fmt.Fprintln(stdout, describeMachine())
		err = printTable(stdout, rows)
	}
	if o.json != "" {
		err = errors.Join(err, writeJSON(o.json, stdout, rows))
	}
	if o.plots != "" {
		err = errors.Join(err, writePlots(o.plots, rows))
	}
	return err
}

// outputPairs prints the rows of a run with -pairs as a table and as JSON, as the options
// request.
func outputPairs(rows []PairRow, o options, stdout io.Writer) (err error) {
	if o.json != "-" {
		fmt.Fprintln(stdout, describeMachine())
		err = printPairs(stdout, rows)
	}
	if o.json != "" {
		err = errors.Join(err, writeJSON(o.json, stdout, rows))
	}
	return err
}

// writeJSON writes the rows as a JSON array to the named file, or to w if the name is
// "-".
func writeJSON[R any](name string, w io.Writer, rows []R) error {
	// Without rows, this is an empty array, not null.
	text, err := json.MarshalIndent(append([]R{}, rows...), "", "\t")
	if err != nil {
		return err
	}
	if name == "-" {
		_, err = w.Write(append(text, '\n'))
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
