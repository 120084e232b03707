package rdmaloop_test

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	docLink    = regexp.MustCompile(`\]\(([^()\s:#]*)(?:#([^()\s]*))?\)`)
	docCommand = regexp.MustCompile("go test (?:[^`\n]|\n[^`\n ])+")
	docPackage = regexp.MustCompile(`\s\./(\S+)`)
	docPattern = regexp.MustCompile(`-(?:run|fuzz|bench) '?([^'/ ]+)`)
	docTest    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)`)
	docHeading = regexp.MustCompile(`(?m)^#+ +.*$`)
	noAnchor   = regexp.MustCompile(`[^\p{L}\p{N}_ \n-]`)
)

// TestDocuments checks the links between the documents and their anchors, and that the
// tests exist that commands in the documents name.
func TestDocuments(t *testing.T) {
	pages, tests, links, commands := documents(t), map[string]string{}, 0, 0
	root := os.DirFS(".")
	require.NoError(t, fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, name)
		tests[path.Dir(name)] += string(text)
		return err
	}))
	for name, text := range pages {
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			links++
			to := path.Join(path.Dir(name), cmp.Or(m[1], path.Base(name)))
			_, err := fs.Stat(root, to)
			require.NoError(t, err, "linked in %s", name)
			headings := strings.ToLower(strings.Join(docHeading.FindAllString(pages[to], -1), "\n"))
			anchors := strings.Split(strings.ReplaceAll(noAnchor.ReplaceAllString(headings, ""), " ", "-"), "\n")
			require.Contains(t, append(anchors, "-"), "-"+m[2], "anchor of %s, linked in %s", to, name)
		}
		for _, command := range docCommand.FindAllString(text, -1) {
			require.NotContains(t, command, `\|`, "%s: in a table, this is what a reader copies", name)
			dir := docPackage.FindStringSubmatch(command)
			for _, m := range docPattern.FindAllStringSubmatch(command, -1) {
				require.NotNil(t, dir, "%s names no package: %s", name, command)
				commands++
				for _, pattern := range alternatives(m[1]) {
					matches := regexp.MustCompile(pattern).MatchString
					found := slices.ContainsFunc(docTest.FindAllStringSubmatch(tests[dir[1]], -1), func(fn []string) bool { return matches(fn[1]) })
					require.True(t, found || pattern == "^$", "%s has no test %s, which %s names", dir[1], pattern, name)
				}
			}
		}
	}
	require.Greater(t, min(links, commands), 50)
}

// TestNames checks that the API has the names of fields and methods that the documents put
// between backquotes: with a type, such as Config.Idle, and perhaps with one of the packages.
func TestNames(t *testing.T) {
	api, err := os.ReadFile("api/next.txt")
	require.NoError(t, err)
	name, n := regexp.MustCompile("`(?:(?:cm|cq|gnetrdma|metrics|monitor|poller|provider|reactor|reactortest|soft|stream|verbs)\\.)?(?:[A-Z]\\w*\\.)*([A-Z]\\w*\\.[A-Z]\\w*)`"), 0
	pages := documents(t)
	delete(pages, "ARCHITECTURE.md")   // has names that are not exported
	delete(pages, "docs/from-gnet.md") // has names of gnet
	for page, text := range pages {
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			n++
			if !regexp.MustCompile(`\.` + regexp.QuoteMeta(m[1]) + `\b`).Match(api) {
				t.Errorf("%s names %s, which the API does not have", page, m[0])
			}
		}
	}
	require.Greater(t, n, 200)
}

// TestMetricNames checks that the metrics exist that the documents name.
func TestMetricNames(t *testing.T) {
	pages, n := documents(t), 0
	loop, device, _ := strings.Cut(pages["docs/metrics.md"], "| `rdmaloop_device_`")
	tables := map[string]string{"loop": loop, "device": device}
	for name, text := range pages {
		for _, m := range regexp.MustCompile(`rdmaloop_(loop|device)_(\w+)`).FindAllStringSubmatch(text, -1) {
			n++
			require.True(t, strings.Contains(tables[m[1]], "| `"+m[2]+"` "), "%s names %s, which is no metric", name, m[0])
		}
	}
	require.Greater(t, n, 5)
}

// alternatives splits a pattern at |, unless it has groups.
func alternatives(pattern string) []string {
	if strings.Contains(pattern, "(") {
		return []string{pattern}
	}
	return strings.Split(pattern, "|")
}

// TestDocumentSizes checks that documents, and the first program that a user reads, stay
// short.
func TestDocumentSizes(t *testing.T) {
	for pattern, most := range map[string]int{
		"ARCHITECTURE.md":     222,
		"CONTRIBUTING.md":     100,
		"CHANGELOG.md":        100,
		"bench/README.md":     204,
		"docs/performance.md": 322,
		"examples/echo/*.go":  600, // without tests
	} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		lines := 0
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			lines += bytes.Count(text, []byte("\n"))
		}
		require.Positive(t, lines, pattern)
		require.LessOrEqual(t, lines, most, pattern)
	}
	for name, text := range documents(t) {
		if path.Dir(name) == "docs" && name != "docs/performance.md" {
			require.LessOrEqual(t, strings.Count(text, "\n"), 210, name)
		}
	}
}

// TestPostingRule checks that only one paragraph of the comment of package reactor says how
// other goroutines use a loop: several once said different things.
func TestPostingRule(t *testing.T) {
	comment, err := os.ReadFile("reactor/doc.go")
	require.NoError(t, err)
	var rules []string
	for paragraph := range strings.SplitSeq(string(comment), "\n//\n") {
		if strings.Contains(paragraph, "Loop.Post") || strings.Contains(paragraph, "Conn.Post") {
			rules = append(rules, paragraph)
		}
	}
	require.Len(t, rules, 1)
	require.Contains(t, rules[0], "Conn.PostWait")
}

// TestPackageExample checks that the handler in the comment of package reactor is that of
// README.md, which TestReadmeServer runs.
func TestPackageExample(t *testing.T) {
	comment, err := os.ReadFile("reactor/doc.go")
	require.NoError(t, err)
	code := regexp.MustCompile(`(?s)//\t// echo is .*?\n//\t}\n//\n//\tdevice`).FindString(string(comment))
	code = strings.TrimSuffix(code, "//\n//\tdevice")
	require.NotEmpty(t, code)
	code = regexp.MustCompile(`(?m)^//\t?`).ReplaceAllString(code, "")
	tested, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	require.Contains(t, string(tested), code)
}
