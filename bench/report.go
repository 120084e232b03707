package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// output prints the rows as a table, and writes JSON and plots if the options request
// them.
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

// writeJSON writes the rows as a JSON array. It writes to the file with the given name,
// or to w if the name is "-".
func writeJSON(name string, w io.Writer, rows []Row) error {
	// Without rows the JSON has an empty array, not null.
	text, err := json.MarshalIndent(append([]Row{}, rows...), "", "\t")
	if err != nil {
		return err
	}
	if name == "-" {
		_, err = w.Write(append(text, '\n'))
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
