package rdmaloop_test

import (
	"fmt"
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

// A block is a fenced block of a document. Its kind, the text after the fence, is one of
//
//	go             a whole program, which TestCommands saves as main.go
//	go FILE        lines of FILE, which is compiled and tested
//	sh run         commands for any user, which TestCommands runs
//	sh root        commands for root, likewise
//	sh shown       commands that can not be run here: they need another host, or hours
//	text output    all that the commands before it print
//	LANGUAGE       anything else: drawings, other languages
//
// After run and root, "long" marks commands that only make test-full runs, and "background" a
// program that runs until the next such block, or the end of the page. The next commands begin
// when it has printed something. The commands of a page run one after another in one shell.
type block struct {
	kind []string
	line int
	text string
}

var (
	blockMarks = [][]string{{"run"}, {"run", "long"}, {"run", "background"}, {"run", "long", "background"}, {"root"}, {"root", "long"}, {"shown"}}
	otherFence = regexp.MustCompile("^ *~~~|^ +```")
	languages  = []string{"c", "dockerfile", "ini", "text", "yaml"}
)

// blocks returns the blocks of a document, and what is wrong with them.
func blocks(document string) (found []block, problems []string) {
	var b *block
	blank := true
	for i, line := range strings.Split(document, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && b == nil:
			b = &block{kind: strings.Fields(fence), line: i + 1}
		case isFence:
			found, b = append(found, *b), nil
		case b != nil:
			b.text += line + "\n"
		case blank && strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"), otherFence.MatchString(line):
			problems = append(problems, fmt.Sprintf("line %d: a block without fences, which say what it is", i+1))
		}
		blank = line == "" || strings.HasPrefix(line, "#")
	}
	if b != nil {
		problems = append(problems, fmt.Sprintf("line %d: a block without end", b.line))
	}
	for i, b := range found {
		problem := b.problem()
		if slices.Contains(b.kind, "output") && (i == 0 || !slices.Equal(found[i-1].kind, []string{"sh", "run"})) {
			problem = "output of no commands that run"
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("line %d: %s", b.line, problem))
		}
	}
	return found, problems
}

func (b *block) problem() string {
	marked := func(marks []string) bool { return slices.Equal(marks, b.kind[1:]) }
	switch {
	case len(b.kind) == 0:
		return "a block that does not say what it is"
	case b.kind[0] == "sh" && !slices.ContainsFunc(blockMarks, marked):
		return "commands that are not marked run, root or shown"
	case b.kind[0] == "go" && len(b.kind) == 1 && !b.isProgram():
		return "code that is no program and names no file"
	case b.kind[0] == "go" && len(b.kind) == 2:
		return b.notIn(b.kind[1])
	case slices.Equal(b.kind, []string{"text", "output"}):
		return ""
	case !slices.Contains([]string{"sh", "go"}, b.kind[0]) && (len(b.kind) != 1 || !slices.Contains(languages, b.kind[0])):
		return "a block of an unknown kind"
	}
	return ""
}

func (b *block) isProgram() bool {
	return slices.Equal(b.kind, []string{"go"}) && strings.HasPrefix(b.text, "package main\n")
}

// notIn returns why the file does not have the code of the block, whose indentation may differ.
func (b *block) notIn(file string) string {
	code, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		return err.Error()
	}
	indent := regexp.MustCompile(`(?m)^[\t ]+`)
	text := strings.TrimSpace(indent.ReplaceAllString(b.text, ""))
	words := regexp.MustCompile(`(?:^|\W)` + regexp.QuoteMeta(text) + `(?:\W|$)`)
	if text == "" || !words.MatchString(indent.ReplaceAllString(string(code), "")) {
		return file + " does not have these lines"
	}
	return ""
}

// documents returns the documents of the repository by their names.
func documents(t *testing.T) map[string]string {
	found := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(filepath.FromSlash(name))
		found[name] = string(text)
		return err
	}))
	require.Greater(t, len(found), 20)
	return found
}

// TestBlocks checks that the blocks of all documents are marked, and that the files have the
// code that the documents show.
func TestBlocks(t *testing.T) {
	n := 0
	for name, text := range documents(t) {
		found, problems := blocks(text)
		require.Empty(t, problems, name)
		n += len(found)
	}
	require.Greater(t, n, 50)
}

// TestBlockProblems checks that blocks that are not marked are found.
func TestBlockProblems(t *testing.T) {
	for _, text := range []string{
		"    make\n", "# Make\n    make\n", "\tmake\n", "~~~\n", "- make\n  ```\n", "```go blocks_test.go\n```", "```go blocks_test.go\nlock struct {\n```", "```\nmake\n```", "```sh\nmake\n```", "```sh ran\nmake\n```", "```sh shown long\nmake\n```", "```make\nmake\n```",
		"```go\nmake()\n```", "```go doc.go\nmake([]int, 1)\n```", "```go none.go\nx := 1\n```", "```sh run\nmake\n",
		"```text output\nmake\n```", "```sh shown\nmake\n```\n```text output\nmake\n```",
	} {
		_, problems := blocks(text)
		require.Len(t, problems, 1, text)
	}
}
