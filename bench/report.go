package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// output prints and writes what was measured, as far as was asked for.
func output(rows []Row, o options, stdout io.Writer) (err error) {
	rows = compared(rows)
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

// writeJSON writes the rows as an array, to a file or for "-" to w.
func writeJSON(name string, w io.Writer, rows []Row) error {
	text, err := json.MarshalIndent(append([]Row{}, rows...), "", "\t") // none is an array too
	if err != nil {
		return err
	}
	if name == "-" {
		_, err = w.Write(append(text, '\n'))
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
