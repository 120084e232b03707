package metrics_test

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
