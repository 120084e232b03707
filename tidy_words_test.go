package rdmaloop_test

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// givenUp has the words that must not be used, because readers from outside did not know
// their meaning. The values are the words to use instead.
var givenUp = map[string]string{
	"abandon":    "fail, cancel",
	"babbler":    "malformed",
	"bell":       "doorbell, eventfd",
	"bury":       "destroy",
	"carrier":    "connection",
	"climate":    "case",
	"courier":    "sender",
	"curious":    "wants the header",
	"depart":     "close",
	"door":       "acceptor",
	"doubt":      "onTimeout",
	"doze":       "idle",
	"dozing":     "idle",
	"duet":       "peerproc",
	"farewell":   "disconnect",
	"gate":       "listener",
	"glance":     "poll",
	"goodbye":    "disconnect",
	"heir":       "successor",
	"impatient":  "timed out",
	"lane":       "sender, connection",
	"lull":       "pause",
	"makeshift":  "provisional",
	"manners":    "parameters",
	"mourn":      "observe",
	"newcomer":   "incoming request",
	"nic":        "device, loopDevice",
	"outlet":     "connected socket",
	"patience":   "timeout, limit",
	"patient":    "waiting",
	"rendezvous": "connection manager of the local path",
	"scribble":   "write random bytes",
	"silence":    "stop responding, drain",
	"spot":       "bind address",
	"talker":     "sender",
	"vague":      "provisional",
	"vandal":     "writer of random bytes",
	"widow":      "client that was restarted",
}

// givenUpNames has the identifiers that must not be used, alone or within a longer
// identifier. The single words of these identifiers are allowed. The values are the names
// to use instead.
var givenUpNames = map[string]string{
	"giveUp":      "fail, failOutstanding",
	"identReader": "IP ID probe",
	"madExchange": "madMux",
	"takeBack":    "forgetSent",
}

// wordsOf matches each word of a text, and each word of a camel-case identifier.
var wordsOf = regexp.MustCompile(`[A-Z]+(?:[A-Z][a-z]|\b)|[A-Z]?[a-z]+|[A-Z]+`)

// givenUpIn returns the words of givenUp and the identifiers of givenUpNames that occur
// in a text. Words in the plural are found too.
func givenUpIn(text string) (found []string) {
	for _, word := range wordsOf.FindAllString(text, -1) {
		word = strings.ToLower(word)
		for _, form := range []string{word, strings.TrimSuffix(word, "s")} {
			if _, ok := givenUp[form]; ok {
				found = append(found, form)
				break
			}
		}
	}
	for name := range givenUpNames {
		if strings.Contains(text, name) || strings.Contains(text, strings.ToUpper(name[:1])+name[1:]) {
			found = append(found, name)
		}
	}
	return found
}

// insteadOf returns the replacement for a word of givenUp or an identifier of
// givenUpNames.
func insteadOf(word string) string {
	if instead, ok := givenUp[word]; ok {
		return instead
	}
	return givenUpNames[word]
}

// checkWords reports the words of givenUp and the identifiers of givenUpNames that occur
// in the comments and identifiers of a file.
func checkWords(s *source) (problems []string) {
	if s.path == "tidy_words_test.go" {
		return nil
	}
	report := func(at ast.Node, text string) {
		for _, word := range givenUpIn(text) {
			problems = append(problems, s.problem(at, "the word %q is given up: %s", word, insteadOf(word)))
		}
	}
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			report(c, c.Text)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			report(id, id.Name)
		}
		return true
	})
	return problems
}

func TestGivenUpWords(t *testing.T) {
	for word, instead := range givenUp {
		require.NotEmpty(t, instead)
		require.Equal(t, strings.ToLower(word), word)
		upper := string(unicode.ToUpper(rune(word[0]))) + word[1:]
		for _, text := range []string{word, upper, "open" + upper, word + "Count", upper + "s", "the " + word + "s are"} {
			require.Equal(t, []string{word}, givenUpIn(text), text)
		}
	}
	for name, instead := range givenUpNames {
		require.NotEmpty(t, instead)
		upper := strings.ToUpper(name[:1]) + name[1:]
		for _, text := range []string{name, upper, "new" + upper, name + "s", "calls " + name + "."} {
			require.Equal(t, []string{name}, givenUpIn(text), text)
		}
	}
	for _, text := range []string{"takes back", "unicode", "doorbell", "newDoorbells", "delegate", "propagates", "indoors", "spotted"} {
		require.Empty(t, givenUpIn(text), text)
	}
}
