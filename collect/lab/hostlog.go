package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A kernelLine is one line of a node's kernel log, in kmsg.jsonl.
type kernelLine struct {
	At    time.Time `json:"at"`
	Level string    `json:"level"` // emerg, alert, crit, err, warn, notice, info, debug
	Text  string    `json:"text"`
}

// bootLines open every node's log. Two of them look like errors and are none.
var bootLines = []kernelLine{
	{Level: "notice", Text: "Linux version 6.8.0-lab (simulated)"},
	{Level: "info", Text: "Command line: BOOT_IMAGE=/boot/vmlinuz-lab ro quiet"},
	{Level: "info", Text: "amdgpu 0000:05:00.0: amdgpu: MEM ECC is active."},
	{Level: "info", Text: "RAS: Correctable Errors collector initialized."},
	{Level: "info", Text: "[drm] Initialized amdgpu for 0000:05:00.0 on minor 1"},
}

// eccLines are a fatal record as an MI300X writes it: constructed after the
// description of one, with other addresses.
var eccLines = []kernelLine{
	{Level: "err", Text: "amdgpu 0000:15:00.0: amdgpu: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"},
	{Level: "emerg", Text: "amdgpu 0000:75:00.0: {1}[Hardware Error]: Accelerator Check Architecture events logged"},
	{Level: "emerg", Text: "amdgpu 0000:75:00.0: {1}[Hardware Error]: aca entry[00].STATUS=0xbea0000000000001"},
	{Level: "emerg", Text: "amdgpu 0000:75:00.0: {1}[Hardware Error]: aca entry[00].ADDR=0x0000000000000000"},
}

func kernelLogPath(dir string) string { return filepath.Join(dir, "kmsg.jsonl") }

func appendKernelLog(dir string, lines ...kernelLine) error {
	f, err := os.OpenFile(kernelLogPath(dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var b strings.Builder
	for _, l := range lines {
		if l.At.IsZero() {
			l.At = time.Now()
		}
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b.Write(append(data, '\n'))
	}
	if _, err := f.WriteString(b.String()); err != nil {
		return err
	}
	return f.Close()
}

// LogKernel adds a line to the kernel log of node i, now. Level is one of
// dmesg's: emerg, alert, crit, err, warn, notice, info, debug.
func (l *Lab) LogKernel(i int, level, text string) error {
	if err := appendKernelLog(l.NodeDir(i), kernelLine{Level: level, Text: text}); err != nil {
		return fmt.Errorf("writing the kernel log of node %d: %w", i, err)
	}
	return nil
}

func readKernelLog(dir string) ([]kernelLine, error) {
	f, err := os.Open(kernelLogPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []kernelLine
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var l kernelLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, sc.Err()
}

// dmesg prints the kernel log in the forms that dmesg has.
func (s *shim) dmesg() int {
	f, err := readFaults(s.dir)
	if err == nil && f.DmesgDenied {
		err = errors.New("read kernel buffer failed: Operation not permitted")
	}
	lines, lerr := readKernelLog(s.dir)
	if err = errors.Join(err, lerr); err != nil {
		s.errorf("dmesg: %v", err)
		return 1
	}
	format, decode := "", false
	args := s.args[1:]
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-x" || a == "--decode":
			decode = true
		case a == "-T" || a == "--ctime":
			format = "ctime"
		case a == "--time-format" && i+1 < len(args):
			i++
			format = args[i]
		case strings.HasPrefix(a, "--time-format="):
			format = strings.TrimPrefix(a, "--time-format=")
		case a == "--color=never" || a == "--nopager" || a == "-P":
		default:
			s.errorf("dmesg: unrecognized option '%s'\nTry 'dmesg --help' for more information.", a)
			return 1
		}
	}
	out := bufio.NewWriter(s.stdout)
	defer out.Flush()
	for _, l := range lines {
		if decode {
			fmt.Fprintf(out, "kern  :%-6s: ", l.Level)
		}
		switch format {
		case "iso":
			fmt.Fprint(out, strings.Replace(l.At.Format("2006-01-02T15:04:05.000000-07:00"), ".", ",", 1)+" ")
		case "ctime":
			fmt.Fprint(out, l.At.Format("[Mon Jan _2 15:04:05 2006] "))
		case "notime":
		default:
			fmt.Fprintf(out, "[%12.6f] ", l.At.Sub(lines[0].At).Seconds())
		}
		fmt.Fprintln(out, l.Text)
	}
	return 0
}

// journalctl prints the same log as the journal's short form.
func (s *shim) journalctl() int {
	lines, err := readKernelLog(s.dir)
	if err != nil {
		s.errorf("%v", err)
		return 1
	}
	kernel := false
	var since time.Time
	args := s.args[1:]
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-k" || a == "--dmesg":
			kernel = true
		case a == "-o" || a == "--output":
			i++ // every form asked for is the short one
		case a == "--since" && i+1 < len(args):
			i++
			n, err := strconv.ParseInt(strings.TrimPrefix(args[i], "@"), 10, 64)
			if err != nil {
				s.errorf("Failed to parse timestamp: %s", args[i])
				return 1
			}
			since = time.Unix(n, 0)
		}
	}
	if !kernel {
		s.errorf("No journal files were found.")
		return 1
	}
	for _, l := range lines {
		if !l.At.Before(since) {
			fmt.Fprintf(s.stdout, "%s %s kernel: %s\n", l.At.Format("2006-01-02T15:04:05-0700"), s.node.Name, l.Text)
		}
	}
	return 0
}
