package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDependencies(t *testing.T) {
	const listing = `iproute2
 |Depends: debconf
  Depends: <debconf-2.0>
    cdebconf
    debconf
  Depends: libc6
debconf
<debconf-2.0>
libc6
`
	require.Equal(t, []string{"iproute2", "debconf", "libc6"}, packagesNamed(listing))
	require.Equal(t, "linux-image-6.1.0-1-amd64", dependencyNamed("linux-image-amd64\n  Depends: linux-image-6.1.0-1-amd64\n"))
	require.Empty(t, dependencyNamed("linux-image-amd64\n"))
}

func TestKeyDependsOnPackages(t *testing.T) {
	old, same, changed := selection{files: "a_1.deb"}, selection{files: "a_1.deb"}, selection{files: "a_2.deb"}
	require.Equal(t, old.key(), same.key())
	require.NotEqual(t, old.key(), changed.key())
}
