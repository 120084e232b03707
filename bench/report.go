package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// output prints the rows in the forms that the options request.
func output(rows []Row, o options, stdout io.Writer) (err error) {
	rows = withRatios(rows)
	if o.json != "-" {
		fmt.Fprintln(stdout, describeMachine())
		table := printTable
		if o.readme {
			table = printReadme
		}
		err = table(stdout, rows)
	}
	if o.json != "" {
		err = errors.Join(err, writeJSON(o.json, stdout, rows))
	}
	if o.plots != "" {
		err = errors.Join(err, writePlots(o.plots, rows))
	}
	return err
}

// outputPairs prints the rows of a run with -pairs in the forms that the options
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

// writeJSON writes the rows as a JSON array to a file, or to w if the name is "-".
func writeJSON[R any](name string, w io.Writer, rows []R) error {
	// The copy is never nil. A nil slice would become null instead of an empty array.
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
