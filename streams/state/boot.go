package state

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// States in the boot file.
const (
	bootOpen  = "open"
	bootClean = "clean"
)

// machineBootID names the current boot of the machine, empty when the system does not tell. With
// an empty id every file that was not closed is taken for torn, which costs a restore, not data.
func machineBootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// torn reports whether the file at path may hold half-written pages: it was not closed, and the
// machine has started since (or cannot tell).
func torn(path, boot string) bool {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false
	}
	b, err := os.ReadFile(path + ".boot")
	if err != nil {
		return true
	}
	was, state, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	if state == bootClean {
		return false
	}
	return state != bootOpen || was == "" || was != boot
}

// writeBoot notes the state of the file. The note is synced where an older one would lie after a
// power loss: "clean" must be gone before the first page is written, and may only come after the
// last. A note that is missing then means torn, so the first one of a file needs no sync.
func writeBoot(path, boot, state string) error {
	if boot == "" {
		boot = "-"
		if state == bootOpen {
			state = "open-without-boot-id"
		}
	}
	note := boot + " " + state + "\n"
	old, err := os.ReadFile(path + ".boot")
	if err == nil && string(old) == note {
		return nil
	}
	first := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(path+".boot", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("note boot id of state file: %w", err)
	}
	_, err = f.WriteString(note)
	if !first {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("note boot id of state file: %w", err)
	}
	return nil
}
