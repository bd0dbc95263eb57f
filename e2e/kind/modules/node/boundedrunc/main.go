// boundedrunc is runc for an engine that lacks a capability itself: it takes the capabilities that are not in its own
// bounding set out of the container's specification, then becomes runc. Without it `--privileged` fails on such a
// machine. Its arguments are runc's.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The capabilities in the order of their numbers, see capabilities(7).
var names = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

func main() {
	if file, field := specification(os.Args[1:]); file != "" {
		if err := bound(file, field); err != nil {
			fail("cannot bound the capabilities in %s: %v", file, err)
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		fail("%v", err)
	}
	fail("%v", syscall.Exec(runc, append([]string{"runc"}, os.Args[1:]...), os.Environ()))
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "boundedrunc: "+format+"\n", values...)
	os.Exit(1)
}

// specification finds the file that names capabilities, and under which field; an empty name means that none does.
func specification(arguments []string) (file, field string) {
	if slices.Contains(arguments, "create") || slices.Contains(arguments, "run") {
		return filepath.Join(option(arguments, "bundle", "b", "."), "config.json"), "process"
	}
	if slices.Contains(arguments, "exec") {
		return option(arguments, "process", "p", ""), ""
	}
	return "", ""
}

func option(arguments []string, long, short, otherwise string) string {
	for i, argument := range arguments {
		if value, found := strings.CutPrefix(argument, "--"+long+"="); found {
			return value
		}
		if (argument == "--"+long || argument == "-"+short) && i+1 < len(arguments) {
			return arguments[i+1]
		}
	}
	return otherwise
}

func bound(file, field string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var whole map[string]any
	if err := decoder.Decode(&whole); err != nil {
		return err
	}
	process := whole
	if field != "" {
		process, _ = whole[field].(map[string]any)
	}
	held, err := boundingSet()
	if err != nil {
		return err
	}
	sets, _ := process["capabilities"].(map[string]any)
	for name, set := range sets {
		listed, _ := set.([]any)
		sets[name] = slices.DeleteFunc(listed, func(one any) bool { return !held[fmt.Sprint(one)] })
	}
	text, err = json.Marshal(whole)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func boundingSet() (map[string]bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for line := range strings.Lines(string(status)) {
		text, found := strings.CutPrefix(line, "CapBnd:")
		if !found {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return nil, err
		}
		for number, name := range names {
			held["CAP_"+name] = bits>>number&1 == 1
		}
	}
	return held, nil
}
