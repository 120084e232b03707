package doctor

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// healthy has the files of a host where everything is as it should be: a card with the address
// 192.0.2.1, and processors 2 and 3 for loops.
var healthy = map[string]string{
	"/proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\n" +
		"Max open files            65536                65536                files\n" +
		"Max locked memory         unlimited            unlimited            bytes\n",
	"/proc/self/uid_map":                                    "         0          0 4294967295\n",
	"/proc/meminfo":                                         "MemTotal: 1 kB\nHugePages_Total:      64\nHugePages_Free:       64\n",
	"/proc/net/udp":                                         "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
	"/proc/net/udp6":                                        "  sl\n",
	"/proc/net/fib_trie":                                    "Local:\n           |-- 192.0.2.0\n              /24 link UNICAST\n           |-- 192.0.2.1\n              /32 host LOCAL\n           |-- 192.0.2.255\n              /32 link BROADCAST\n",
	"/proc/net/if_inet6":                                    "20010db8000000000000000000000001 01 80 10 80       lo\n",
	"/proc/sys/net/core/rmem_max":                           "4194304\n",
	"/proc/sys/vm/max_map_count":                            "65530\n",
	"/sys/fs/cgroup/cpu.max":                                "max 100000\n",
	"/sys/fs/cgroup/memory.max":                             "max\n",
	"/sys/devices/system/cpu/isolated":                      "2-3\n",
	"/sys/devices/system/cpu/online":                        "0-3\n",
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
	"/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "performance\n",
	"/proc/irq/24/effective_affinity_list":                  "0-1\n",

	"/sys/class/infiniband/mlx5_0/ports/1/state":             "4: ACTIVE\n",
	"/sys/class/infiniband/mlx5_0/ports/1/gids/0":            "fe80:0000:0000:0000:0200:00ff:fe00:0001\n",
	"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0": "RoCE v2\n",
	"/sys/class/infiniband/mlx5_0/ports/1/gids/1":            "0000:0000:0000:0000:0000:ffff:c000:0201\n",
	"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1": "RoCE v2\n",
	"/sys/class/infiniband/mlx5_0/ports/1/gids/2":            "0000:0000:0000:0000:0000:0000:0000:0000\n",
}

// newHost writes the files of a host, some of which a test changes. A file with no content is
// left out.
func newHost(t *testing.T, changed map[string]string) *Host {
	t.Helper()
	root := t.TempDir()
	write := func(files map[string]string) {
		for name, text := range files {
			name = filepath.Join(root, name)
			if text == "" {
				require.NoError(t, os.RemoveAll(name))
				continue
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
			require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
		}
	}
	write(healthy)
	write(changed)
	return &Host{Root: root, Addr: netip.MustParseAddr("192.0.2.1"), Port: 4791, CPUs: []int{2, 3}, GOMAXPROCS: 4}
}

// findings returns those of a host that are not OK.
func findings(h *Host) (list []Finding) {
	for _, f := range h.Examine() {
		if f.Level != OK {
			list = append(list, f)
		}
	}
	return list
}

func TestHealthyHost(t *testing.T) {
	h := newHost(t, nil)
	require.Empty(t, findings(h))
	text := Write(h.Examine(), false)
	require.Contains(t, text, "ok       address              192.0.2.1 belongs to mlx5_0: the provider auto uses this device\n")
	require.Equal(t, len(checks), strings.Count(text, "\n"))
}

// TestFaults plants one fault at a time: each is found, and nothing else is.
func TestFaults(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the names of files of Linux have colons")
	}
	const udpLine = "  10: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4242 2 0 0\n"
	noDevice := map[string]string{"/sys/class/infiniband/mlx5_0": "", "/proc/self/limits": "Max open files 65536 65536 files\nMax locked memory 65536 65536 bytes\n"}
	for name, fault := range map[string]struct {
		files  map[string]string
		change func(*Host)
		topic  string
		level  Level
		found  string
	}{
		"port down":           {files: map[string]string{"/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}, topic: "RDMA devices", level: Problem, found: "mlx5_0 port 1 1: DOWN"},
		"no device":           {files: noDevice, topic: "RDMA devices", level: Note, found: "none"},
		"only RoCE v1":        {files: map[string]string{"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1": "IB/RoCE v1\n"}, topic: "GIDs", level: Problem, found: "mlx5_0 fe80::200:ff:fe00:1"},
		"address elsewhere":   {change: func(h *Host) { h.Addr = netip.MustParseAddr("192.0.2.9") }, topic: "address", level: Problem, found: "192.0.2.9 is no address of this host"},
		"locked memory":       {files: map[string]string{"/proc/self/limits": "Max open files 65536 65536 files\nMax locked memory 8388608 unlimited bytes\n"}, topic: "locked memory", level: Problem, found: "8.0 MiB"},
		"port in use":         {files: map[string]string{"/proc/net/udp": "sl\n" + udpLine}, topic: "UDP port", level: Note, found: "4791 is used by the kernel or a process of another user"},
		"receive buffer":      {files: map[string]string{"/proc/sys/net/core/rmem_max": "212992\n"}, topic: "UDP receive buffer", level: Note, found: "208 KiB"},
		"descriptors":         {files: map[string]string{"/proc/self/limits": "Max open files 1024 65536 files\nMax locked memory unlimited unlimited bytes\n"}, topic: "descriptors", level: Note, found: "1024"},
		"mappings":            {files: map[string]string{"/proc/sys/vm/max_map_count": "4096\n"}, topic: "mappings", level: Problem, found: "4096"},
		"memory limit":        {files: map[string]string{"/sys/fs/cgroup/memory.max": "536870912\n"}, topic: "container limits", level: Note, found: "512.0 MiB of memory"},
		"other users":         {files: map[string]string{"/proc/self/uid_map": "0 100000 65536\n"}, topic: "container limits", level: Note, found: "users of its own"},
		"no processor":        {change: func(h *Host) { h.CPUs = []int{99, 3} }, topic: "processors", level: Problem, found: "no processor 99"},
		"one processor twice": {change: func(h *Host) { h.CPUs = []int{2, 2} }, topic: "processors", level: Problem, found: "two busy loops on processor 2"},
		"too few threads":     {change: func(h *Host) { h.GOMAXPROCS = 3 }, topic: "GOMAXPROCS", level: Problem, found: "3"},
		"governor":            {files: map[string]string{"/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "powersave\n"}, topic: "frequency governor", level: Note, found: "performance on 1 processors, powersave on 1 processors"},
		"not isolated":        {files: map[string]string{"/sys/devices/system/cpu/isolated": "3\n"}, topic: "isolated processors", level: Note, found: "[2]"},
		"interrupts":          {files: map[string]string{"/proc/irq/24/effective_affinity_list": "3\n"}, topic: "interrupts", level: Note, found: "24 on 3"},
		"no huge pages":       {files: map[string]string{"/proc/meminfo": "HugePages_Free: 0\n"}, topic: "huge pages", level: Note, found: "none are free"},
		"file without access": {files: map[string]string{"/proc/sys/vm/max_map_count": ""}, topic: "mappings", level: Unknown, found: "max_map_count"},
		"no number":           {files: map[string]string{"/proc/sys/net/core/rmem_max": "many\n"}, topic: "UDP receive buffer", level: Unknown, found: "invalid syntax"},
		"no list":             {files: map[string]string{"/proc/irq/24/effective_affinity_list": "3-1\n"}, topic: "interrupts", level: Unknown, found: "no list of processors"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, fault.files)
			if fault.change != nil {
				fault.change(h)
			}
			list := findings(h)
			require.Len(t, list, 1)
			require.Equal(t, fault.topic, list[0].Topic)
			require.Equal(t, fault.level, list[0].Level)
			require.Contains(t, list[0].Found, fault.found)
			if fault.level != Unknown {
				require.NotEmpty(t, list[0].Means)
				require.NotEmpty(t, list[0].Do)
			}
		})
	}
}

// TestQuota checks a quota of a container, in both versions of cgroups, which also limits
// GOMAXPROCS.
func TestQuota(t *testing.T) {
	for _, files := range []map[string]string{
		{"/sys/fs/cgroup/cpu.max": "150000 100000\n"},
		{"/sys/fs/cgroup/cpu.max": "", cpuQuota: "150000\n", cpuPeriod: "100000\n"},
	} {
		list := findings(newHost(t, files))
		require.Len(t, list, 2)
		require.Contains(t, list[0].Found, "1.5 processors")
		require.Equal(t, "GOMAXPROCS", list[1].Topic)
		require.Equal(t, "GOMAXPROCS=1", list[1].Do)
	}
	require.Empty(t, findings(newHost(t, map[string]string{"/sys/fs/cgroup/cpu.max": "", cpuQuota: "-1\n", cpuPeriod: "100000\n"})))
}

// TestNoProcessor checks that nothing is said of processors that the host does not have.
func TestNoProcessor(t *testing.T) {
	h := newHost(t, map[string]string{"/sys/devices/system/cpu/online": "0-1\n"})
	list := findings(h)
	require.Len(t, list, 3)
	require.Equal(t, "no processor 2, no processor 3", list[0].Found)
	require.Equal(t, "give each loop its own processor of 0-1", list[0].Do)
	for i, topic := range []string{"isolated processors", "interrupts"} {
		require.Equal(t, Finding{Topic: topic, Level: Unknown, Found: "the host has none of the processors of the loops"}, list[i+1])
	}
	h = newHost(t, nil)
	h.CPUs = []int{1, 99, 1}
	list = findings(h)
	require.Equal(t, "no processor 99, two busy loops on processor 1", list[0].Found)
	require.Contains(t, list[2].Found, "processors [1] of the loops")
	h = newHost(t, map[string]string{"/sys/devices/system/cpu/online": ""})
	list = findings(h)
	require.Len(t, list, 1, "only the check that needs the file")
	require.Equal(t, "processors", list[0].Topic)
}

// TestOwner checks that the process that has the port is named.
func TestOwner(t *testing.T) {
	h := newHost(t, map[string]string{
		"/proc/net/udp6": "sl\n  10: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4242 2 0 0\n",
		"/proc/77/comm":  "server\n", "/proc/77/fd/.keep": "x",
	})
	require.NoError(t, os.Symlink("socket:[4242]", h.path("/proc/77/fd/5")))
	list := findings(h)
	require.Len(t, list, 1)
	require.Equal(t, "4791 is used by process 77 server", list[0].Found)
}

// TestAddresses checks addresses that no device has.
func TestAddresses(t *testing.T) {
	h := newHost(t, nil)
	for _, addr := range []string{"127.0.0.1", "2001:db8::1"} {
		h.Addr = netip.MustParseAddr(addr)
		require.Empty(t, findings(h), addr)
	}
	h.Addr = netip.Addr{}
	require.Empty(t, findings(h))
}

func TestJSON(t *testing.T) {
	var list []map[string]string
	require.NoError(t, json.Unmarshal([]byte(Write(newHost(t, map[string]string{"/proc/sys/vm/max_map_count": "1\n"}).Examine(), true)), &list))
	require.Len(t, list, len(checks))
	require.Equal(t, map[string]string{"topic": "RDMA devices", "level": "ok", "found": "mlx5_0 port 1 4: ACTIVE"}, list[0])
	require.Equal(t, "problem", list[7]["level"])
}

// TestThisHost checks that nothing that a Linux host has makes a check fail.
func TestThisHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("doctor reads files of Linux")
	}
	h := &Host{Root: "/", Port: 4791, CPUs: []int{0}, GOMAXPROCS: 3}
	for _, f := range h.Examine() {
		require.NotEmpty(t, f.Found, f.Topic)
	}
}
