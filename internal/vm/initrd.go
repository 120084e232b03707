package main

import (
	"bytes"
	"maps"
	"os"
)

// writeInitrd writes the guest's archive to a file. It has the base, the Go programs, the
// scripts and the cases.
func writeInitrd(name string, b base, programs tree, cases []testCase) error {
	files := maps.Clone(programs)
	if err := addGuest(files, cases); err != nil {
		return err
	}
	archive, err := os.ReadFile(b.archive())
	if err != nil {
		return err
	}
	out := bytes.NewBuffer(archive)
	if err := files.writeTo(out); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}

// addGuest adds the scripts init and lib.sh and the requested cases.
func addGuest(files tree, cases []testCase) error {
	for _, name := range []string{"init", "lib.sh"} {
		if err := addScript(files, name); err != nil {
			return err
		}
	}
	for _, c := range cases {
		files["cases/"+c.name+".sh"] = c.script
	}
	return nil
}

func addScript(files tree, name string) (err error) {
	files[name], err = guest.ReadFile("guest/" + name)
	return err
}
