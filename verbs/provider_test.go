package verbs_test

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestProgressStrings(t *testing.T) {
	requireNames(t, verbs.ProgressAuto, "auto", "manual", "progress 2")
}
