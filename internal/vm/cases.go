package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed guest
var guest embed.FS

// The classes of cases. Each case names its class in its first line, "# class: quick".
const (
	quick   = "quick"   // cases of make test: about four minutes in all
	full    = "full"    // further cases of make test-full: at most twenty minutes in all
	long    = "long"    // cases that take minutes each, of make test-long
	measure = "measure" // no tests: they print figures and run only by name
)

// A testCase is a shell script in guest/cases.
type testCase struct {
	name, class string
	script      []byte
}

// selectCases returns the cases of a class that match the pattern run, in the order of
// running. The class "all" has all tests. Without a class, the cases are chosen only by
// the pattern, which must not be empty then.
func selectCases(class, run string) (cases []testCase, err error) {
	match, err := regexp.Compile(run)
	if err != nil {
		return nil, err
	}
	if class == "" && run == "" {
		return nil, errors.New("choose the cases with -class or with -run")
	}
	if !slices.Contains([]string{"", quick, full, long, "all"}, class) {
		return nil, fmt.Errorf("-class %q: must be quick, full, long or all", class)
	}
	all, err := readCases(guest)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		inClass := class == "" || class == c.class || class == "all" && c.class != measure
		if inClass && match.MatchString(c.name) {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("no case of the class %q matches %q", class, run)
	}
	return cases, nil
}

// readCases reads all cases. A case without a valid class is an error.
func readCases(files fs.FS) (cases []testCase, err error) {
	names, err := fs.Glob(files, "guest/cases/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		c := testCase{name: strings.TrimSuffix(path.Base(name), ".sh"), script: script}
		line, _, _ := bytes.Cut(script, []byte("\n"))
		c.class = strings.TrimPrefix(string(line), "# class: ")
		if !strings.HasSuffix(name, ".sh") || !slices.Contains([]string{quick, full, long, measure}, c.class) {
			return nil, fmt.Errorf("%s: the name must end in .sh, and the first line must be # class: quick, full, long or measure", name)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// addGuest adds the scripts init and lib.sh and the requested cases.
func addGuest(files tree, cases []testCase) (err error) {
	for _, name := range []string{"init", "lib.sh"} {
		if files[name], err = guest.ReadFile("guest/" + name); err != nil {
			return err
		}
	}
	for _, c := range cases {
		files["cases/"+c.name+".sh"] = c.script
	}
	return nil
}

// A definition is a function of lib.sh, or a variable.
var definition = regexp.MustCompile(`(?ms)^(\w+)(\(\) \{\n.*?^\}|=.*?$)`)

// uses reports whether a case, or what the cases use of lib.sh, contains the text.
func uses(cases []testCase, text string) bool {
	library, err := guest.ReadFile("guest/lib.sh")
	if err != nil {
		panic(err) // This can not happen, because the file is embedded.
	}
	var used []byte
	for _, c := range cases {
		used = append(used, c.script...)
	}
	unused := definition.FindAllStringSubmatch(string(library), -1)
	for before := -1; before < len(used); {
		before = len(used)
		unused = slices.DeleteFunc(unused, func(d []string) bool {
			reference := `\b` + d[1] + `\b`
			if strings.HasPrefix(d[2], "=") {
				reference = `\$\{?` + d[1] + `\b`
			}
			found := regexp.MustCompile(reference).Match(used)
			if found {
				used = append(used, d[2]...)
			}
			return found
		})
	}
	return bytes.Contains(used, []byte(text))
}
