package main

import (
	"bytes"
	"context"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed guest
var guest embed.FS

// caseNames lists the cases that match the pattern run and not the pattern skip, in the
// order of running.
func caseNames(run, skip *regexp.Regexp) (names []string) {
	files, err := fs.Glob(guest, "guest/cases/*.sh")
	if err != nil {
		panic(err) // This can not happen, because the pattern is a valid constant.
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sh")
		if run.MatchString(name) && !skip.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// writeInitrd writes the guest's archive to a file. It has the base, the programs of this
// module, the scripts and the cases.
func writeInitrd(ctx context.Context, name string, b base, cases []string) error {
	files, err := buildPrograms(ctx, filepath.Dir(name))
	if err != nil {
		return err
	}
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
func addGuest(files tree, cases []string) error {
	for _, name := range []string{"init", "lib.sh"} {
		if err := addScript(files, name); err != nil {
			return err
		}
	}
	for _, name := range cases {
		if err := addScript(files, "cases/"+name+".sh"); err != nil {
			return err
		}
	}
	return nil
}

func addScript(files tree, name string) (err error) {
	files[name], err = guest.ReadFile("guest/" + name)
	return err
}
