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

// caseNames lists the names of the cases that match the pattern, in the order in which
// they run.
func caseNames(match *regexp.Regexp) (names []string) {
	files, err := fs.Glob(guest, "guest/cases/*.sh")
	if err != nil {
		panic(err) // Match fails only if the pattern is malformed, and the pattern is a constant.
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sh")
		if match.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// writeInitrd writes the guest's archive to the file with the given name. The archive
// has the base, the programs of this module, the scripts and the cases.
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

// addGuest adds files to the tree: the scripts init and lib.sh, and the requested cases.
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
