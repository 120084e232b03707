package main

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func names(t *testing.T, class, run string) (names []string) {
	cases, err := selectCases(class, run)
	require.NoError(t, err)
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

func TestSelectCases(t *testing.T) {
	require.Contains(t, names(t, quick, ""), "device")
	require.NotContains(t, names(t, full, ""), "device", "a class has no cases of another class")
	require.Equal(t, []string{"rping"}, names(t, "", "^rping$"))
	require.Equal(t, []string{"latency"}, names(t, "", "^latency$"), "a measurement runs by name")
	require.NotContains(t, names(t, "all", ""), "latency")
	require.Subset(t, names(t, "all", ""), names(t, quick, ""))
	for _, wrong := range [][2]string{{"", ""}, {"fast", ""}, {measure, ""}, {quick, "no such case"}, {"", "("}, {full, "^device$"}} {
		_, err := selectCases(wrong[0], wrong[1])
		require.Error(t, err, wrong)
	}
}

// TestNeededCases checks that the class quick keeps the cases that make test must have.
func TestNeededCases(t *testing.T) {
	require.Subset(t, names(t, quick, ""), []string{
		"go_to_rping", "rping_to_go", "wire-rping",
		"go_to_ucmatose", "ucmatose_to_go", "wire-ucmatose",
		"go_to_ib_send_bw", "go_to_ib_send_lat", "ib_send_bw_to_go", "ib_send_lat_to_go", "wire-ib_send",
		"wire-loss", "stream-default",
		"nvmeof-mount", "nvmeof-mount-device", "nvmeof-killed", "nvmeof-killed-device",
	})
}

func TestReadCases(t *testing.T) {
	for _, test := range []struct{ name, script string }{
		{"a.sh", "true\n"},
		{"a.sh", "# class: fast\n"},
		{"a.sh", "# class: quick long\n"},
		{"a.sh", "#class: quick\n"},
		{"a.sh", "# A comment.\n# class: quick\n"},
		{"a", "# class: quick\n"},
		{"a.sh", ""},
	} {
		_, err := readCases(fstest.MapFS{"guest/cases/" + test.name: {Data: []byte(test.script)}})
		require.ErrorContains(t, err, "guest/cases/"+test.name, test.script)
	}
	cases, err := readCases(fstest.MapFS{"guest/cases/a.sh": {Data: []byte("# class: long\ntrue\n")}})
	require.NoError(t, err)
	require.Equal(t, []testCase{{"a", long, []byte("# class: long\ntrue\n")}}, cases)
}

// TestPrograms checks that every program is used by a case, and that only the programs are
// built that a case needs, by itself or by functions and variables of lib.sh.
func TestPrograms(t *testing.T) {
	all, err := readCases(guest)
	require.NoError(t, err)
	for _, program := range goPrograms {
		require.True(t, uses(all, "/go/"+program.name), program.name)
	}
	for name, want := range map[string][]string{
		"rping":        nil,
		"rping_to_go":  {"interop"},
		"echo_busy":    {"echo"},
		"nvmeof-sync":  {"nvmeof"}, // by on_both_devices
		"wire-traffic": {"pairtest.test"},
	} {
		cases, err := selectCases("", "^"+name+"$")
		require.NoError(t, err)
		var used []string
		for _, program := range goPrograms {
			if uses(cases, "/go/"+program.name) {
				used = append(used, program.name)
			}
		}
		require.Equal(t, want, used, name)
	}
}

// TestGuestFiles checks that addGuest adds exactly the requested cases.
func TestGuestFiles(t *testing.T) {
	files := tree{}
	require.NoError(t, addGuest(files, []testCase{{"rping", quick, []byte("true")}}))
	require.Contains(t, files, "init")
	require.Contains(t, files, "lib.sh")
	require.Equal(t, "true", string(files["cases/rping.sh"]))
	require.NotContains(t, files, "cases/device.sh")
}
