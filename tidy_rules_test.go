package rdmaloop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRulesCanFail passes files that violate a rule to the rule's function, and checks
// that the function reports exactly one violation for each file.
func TestRulesCanFail(t *testing.T) {
	for _, bad := range []struct {
		name, path, text, want string
		check                  rule
	}{
		{"import of a package beside it", "cq/x.go", imports(module + "/poller"), "cq must not import poller", checkArrows},
		{"import of a package above it", "verbs/x.go", imports(module + "/cm"), "verbs must not import cm", checkArrows},
		{"choosing a provider", "reactor/x.go", imports(module + "/provider/soft"), "reactor must not import provider/soft", checkArrows},
		{"test support in production", "reactor/x.go", imports(module + "/provider/providertest"), "reactor must not import provider/providertest", checkArrows},
		{"internal test support in a provider", "provider/soft/x.go", imports(module + "/internal/testutil/leak"), "provider/soft must not import internal/testutil/leak", checkArrows},
		{"test support of provider/soft in production", "provider/soft/x.go", imports(module + "/provider/soft/internal/nettest"), "provider/soft must not import provider/soft/internal/nettest", checkArrows},
		{"attacks in a provider", "provider/rdmacore/x.go", imports(module + "/internal/hostile"), "provider/rdmacore must not import internal/hostile", checkArrows},
		{"internal in an example", "examples/echo/x.go", imports(module + "/internal/slots"), "must not import internal/slots", checkArrows},
		{"internal in an example of a package", "cq/example_test.go", imports(module + "/internal/slots"), "must not import internal/slots", checkArrows},
		{"import of another internal package", "internal/slots/x.go", imports(module + "/internal/psn"), "must not import internal/psn", checkArrows},
		{"import in a test", "cq/x_test.go", imports(module + "/poller"), "cq must not import poller", checkArrows},
		{"unknown package", "extras/x.go", imports("fmt"), "not in the table", checkArrows},
		{"foreign module", "cm/x.go", imports("github.com/some/thing"), "must not depend on github.com/some/thing", checkModules},
		{"test module in production", "cm/x.go", imports("github.com/stretchr/testify/require"), "must not depend on", checkModules},
		{"foreign module in a test", "cm/x_test.go", imports("github.com/some/thing"), "must not depend on", checkModules},
		{"Prometheus in the library", "reactor/x.go", imports("github.com/prometheus/client_golang/prometheus"), "must not depend on", checkModules},
		{"system calls in verbs", "verbs/x.go", imports("golang.org/x/sys/unix"), "must not depend on", checkModules},
		{"cgo", "provider/soft/x.go", imports("C"), "cgo belongs", checkUnsafe},
		{"unsafe", "provider/soft/x.go", imports("unsafe"), "unsafe belongs", checkUnsafe},
		{"unfinished", "cm/x.go", "package x\n\n// " + "TO" + "DO: later\n", "TO" + "DO", checkUnfinished},
		{"function", "cm/x.go", "package x\nfunc Name() {}", "Name has no comment", checkDocs},
		{"method", "cm/x.go", "package x\nfunc (t *T[K]) Name() {}", "Name has no comment", checkDocs},
		{"type", "cm/x.go", "package x\ntype Name int", "Name has no comment", checkDocs},
		{"constant", "cm/x.go", "package x\nconst (\n\tName = 1\n)", "Name has no comment", checkDocs},
		{"example that is not run", "cm/example_test.go", "package x_test\nfunc Example() {}", "Example has no output", checkExamples},
		{"example in two files", "cm/example_test.go", "package x_test\nfunc Example() {\n\thelp()\n\t// Output: 1\n}", "Example uses what is not in its file", checkExamples},
		{"long file", "cm/x.go", "package x" + strings.Repeat("\n", maxFileLines) + "var x int", "cm/x.go has 801 lines", checkSize},
		{"long function", "cm/x.go", "package x\nfunc name() {" + strings.Repeat("\n", maxFuncLines) + "}", "cm/x.go:name has 101 lines", checkSize},
	} {
		t.Run(bad.name, func(t *testing.T) {
			problems := bad.check(parse(t, bad.path, bad.path, bad.text))
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], bad.want)
		})
	}
}

func TestRulesCanPass(t *testing.T) {
	for _, good := range []struct{ name, path, text string }{
		{"reactor", "reactor/x.go", imports("time", module+"/cm", module+"/verbs", "golang.org/x/sys/unix")},
		{"metrics", "metrics/x.go", imports(module+"/reactor", "github.com/prometheus/client_golang/prometheus")},
		{"provider", "provider/x.go", imports(module+"/provider/soft", module+"/verbs")},
		{"example", "examples/echo/x.go", imports(module+"/provider", module+"/reactor", "github.com/some/thing")},
		{"test", "reactor/x_test.go", imports(module+"/reactor", module+"/internal/testutil/leak", "github.com/stretchr/testify/require")},
		{"example of a package", "cq/example_test.go", imports(module+"/cq", module+"/poller", module+"/provider/soft")},
		{"test of the root", "x_test.go", imports(module+"/reactor", module+"/provider/soft")},
		{"unsafe", "provider/soft/x_unsafe.go", imports("unsafe")},
		{"cgo", "provider/rdmacore/x.go", imports("C", "unsafe")},
		{"whole example", "cm/example_test.go", "package x_test\nfunc Example() {\n\thelp()\n\t// Output:\n}\n\nfunc help() {}\n"},
		{"documented", "cm/x.go", "package x\n\n// T is a type.\ntype T int\n\n// Group.\nconst (\n\tA = 1\n\tB = 2\n)\n\nfunc (t T) String() string { return \"\" }\n"},
	} {
		t.Run(good.name, func(t *testing.T) {
			for name, check := range rules {
				require.Empty(t, check(parse(t, good.path, good.path, good.text)), name)
			}
		})
	}
}

// imports returns the text of a Go file that imports the named packages.
func imports(names ...string) string {
	text := "package x\n"
	for _, name := range names {
		text += "import _ \"" + name + "\"\n"
	}
	return text
}

// checkModules checks imports of packages from other modules. The library may import only
// the standard library and x/sys. Package gnetrdma, and the attacks on it, may import
// gnet too, and package metrics the client of Prometheus. Tests may import two more modules.
// Applications may import all modules of go.mod.
func checkModules(s *source) []string {
	if s.isApplication() {
		return nil
	}
	allowed := []string{"golang.org/x/sys/*"}
	if s.dir() == "verbs" && !s.isTest() {
		// Package verbs makes no system calls, so it must not import x/sys.
		allowed = nil
	}
	if s.isTest() || slices.Contains(testSupport, s.dir()) {
		allowed = append(allowed, "github.com/stretchr/testify/*", "go.uber.org/goleak")
	}
	if fits("gnetrdma*", s.dir()) || s.dir() == "internal/hostile" {
		allowed = append(allowed, "github.com/panjf2000/gnet/v2*")
	}
	if s.dir() == "metrics" {
		allowed = append(allowed, "github.com/prometheus/*")
	}
	return s.eachImport(func(name string) string {
		domain, _, _ := strings.Cut(name, "/")
		foreign := strings.Contains(domain, ".") && !strings.HasPrefix(name, module)
		if !foreign || slices.ContainsFunc(allowed, func(a string) bool { return fits(a, name) }) {
			return ""
		}
		return fmt.Sprintf("%s must not depend on %s", s.dir(), name)
	})
}
