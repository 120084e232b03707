// Testrun runs go test in several modules and prints a line for each package, the output
// of what failed, why tests were skipped, and what took longest. Its arguments are those
// of go test:
//
//	go run ./internal/testrun -dirs '. bench' -- -short -count=1 ./...
//
// It fails if a test failed, and if no test ran in one of the directories.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	tool := flag.String("go", "go", "the go command")
	dirs := flag.String("dirs", ".", "directories of modules, separated by spaces")
	flag.Parse()
	began := time.Now()
	r := newReport(os.Stdout)
	err := runAll(r, *tool, strings.Fields(*dirs), flag.Args())
	r.summary(time.Since(began))
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

// runAll tests the modules in turn. A failure does not keep the next module from running.
func runAll(r *report, tool string, dirs, args []string) (failed error) {
	if len(dirs) == 0 {
		return fmt.Errorf("no directory: name those of the modules with -dirs")
	}
	for _, dir := range dirs {
		before := r.passed
		if err := run(r, tool, dir, args); err != nil {
			failed = fmt.Errorf("%s: %w", dir, err)
		} else if r.passed == before {
			failed = fmt.Errorf("%s: no test ran", dir)
		}
	}
	return failed
}

func run(r *report, tool, dir string, args []string) error {
	cmd := exec.Command(tool, append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := read(r, out); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	return cmd.Wait()
}

// read passes the events of test2json to the report. A line that is no event is printed.
func read(r *report, from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.add(e)
			} else {
				fmt.Fprintf(r.out, "%s", line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
