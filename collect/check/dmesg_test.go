package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/remote"

	"github.com/google/go-cmp/cmp"
)

var (
	chicago = time.FixedZone("", -6*3600)
	host    = HostClock{Now: time.Date(2026, 1, 7, 12, 0, 0, 0, chicago), Boot: time.Date(2026, 1, 7, 9, 0, 0, 0, chicago)}
)

func at(h, m, s int) time.Time { return time.Date(2026, 1, 7, h, m, s, 0, chicago) }

func TestParseLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, line, level, msg string
		time                   time.Time
	}{
		{"dmesg iso with level", "kern  :err   : 2026-01-07T10:00:10,500000-06:00 boom", "err", "boom", at(10, 0, 10).Add(500 * time.Millisecond)},
		{"dmesg iso", "2026-01-07T10:00:10,500000-06:00 boom", "", "boom", at(10, 0, 10).Add(500 * time.Millisecond)},
		{"another zone", "kern  :info  : 2026-01-07T17:00:10,000000+01:00 boom", "info", "boom", at(10, 0, 10)},
		{"boot seconds", "[ 3610.250] boom", "", "boom", at(10, 0, 10).Add(250 * time.Millisecond)},
		{"boot seconds with level", "kern  :warn  : [ 3610.250000] boom", "warn", "boom", at(10, 0, 10).Add(250 * time.Millisecond)},
		{"dmesg -T", "[Wed Jan  7 10:00:10 2026] boom", "", "boom", at(10, 0, 10)},
		{"syslog RFC 3339", "2026-01-07T16:00:10.500000Z node7 kernel: [ 3610.2] boom", "", "boom", at(10, 0, 10).Add(500 * time.Millisecond)},
		{"journal short-iso", "2026-01-07T10:00:10-0600 node7 kernel: boom", "", "boom", at(10, 0, 10)},
		{"journal without year", "Jan 07 10:00:10 node7 kernel: boom", "", "boom", at(10, 0, 10)},
		{"journal of last year", "Dec 31 10:00:10 node7 kernel: boom", "", "boom", time.Date(2025, 12, 31, 10, 0, 10, 0, chicago)},
		{"no stamp", "  boom", "", "  boom", time.Time{}},
		{"impossible stamp", "2026-13-47T10:00:10,5-06:00 boom", "", "2026-13-47T10:00:10,5-06:00 boom", time.Time{}},
		{"a message with colons", "2026-01-07T10:00:10,5-06:00 amdgpu 0000:03:00.0: amdgpu: boom", "", "amdgpu 0000:03:00.0: amdgpu: boom", at(10, 0, 10).Add(500 * time.Millisecond)},
	} {
		k := parseLine(tt.line, host)
		if k.level != tt.level || k.msg != tt.msg || !k.time.Equal(tt.time) {
			t.Errorf("%s: %+v", tt.name, k)
		}
	}
	if k := parseLine("[ 12.5] boom", HostClock{Now: host.Now}); !k.time.IsZero() || k.msg != "boom" {
		t.Errorf("without the time of the start: %+v", k)
	}
}

func TestParseClock(t *testing.T) {
	t.Parallel()
	c, err := ParseClock("1767808800.500000000 -0600\n10800.25 5.5\n")
	if err != nil || !c.Now.Equal(at(12, 0, 0).Add(500*time.Millisecond)) || c.Now.Format("-0700") != "-0600" || !c.Boot.Equal(at(9, 0, 0).Add(250*time.Millisecond)) {
		t.Errorf("%+v %v", c, err)
	}
	if c, err = ParseClock("1767808800.5 +0530"); err != nil || !c.Boot.IsZero() {
		t.Errorf("without uptime: %+v %v", c, err)
	}
	for _, bad := range []string{"", "x +0000", "1767808800 here", "-5 +0000"} {
		if _, err := ParseClock(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	out, err := mustRun(t.Context(), local{}, "clock", remote.Command{Args: ClockArgs()})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ParseClock(string(out)); err != nil || time.Since(c.Now).Abs() > time.Minute {
		t.Errorf("this machine: %+v %v", c, err)
	}
}

func summary(r DmesgResult) (out []string) {
	for _, e := range r.Events {
		out = append(out, strings.Join([]string{string(e.Severity), e.Group, e.msg[:min(len(e.msg), 40)]}, " "))
	}
	return out
}

func TestScanSample(t *testing.T) {
	t.Parallel()
	r := ScanText(testdata(t, "amd__dmesg_sample.log"), Mark{}, host)
	want := []string{
		"warning kernel_err WARNING: CPU: 0 PID: 1 at drivers/gpu/dr",
		"error io_page_fault AMD-Vi: Event logged [IO_PAGE_FAULT devi",
		"warning acpi ACPI Error: Method parse/execution faile",
		"error ras amdgpu 0000:01:00.0: {14}poison is consu",
		"error ras amdgpu 0000:01:00.0: {15}Poison is creat",
		"error ras amdgpu 0000:02:00.0: amdgpu: Saved bad p",
		"error hardware amdgpu 0000:02:00.0: amdgpu: Error Addre",
	}
	if diff := cmp.Diff(want, summary(r)); diff != "" {
		t.Error(diff)
	}
	if len(r.Records) != 2 || r.Errors != 7 || r.Warnings != 2 || r.Pass || r.Lines != 71 || r.InWindow != 71 || r.NoTime != 0 {
		t.Fatalf("%d records, %d errors, %d warnings: %+v", len(r.Records), r.Errors, r.Warnings, r)
	}
	if f := r.Records[0]; f.Source != "firmware" || f.Severity != Error || len(f.Lines) != 13 || len(f.Addresses) != 1 || !strings.Contains(f.Head, "APEI Generic") {
		t.Errorf("%+v", f)
	}
	if a := r.Records[1]; a.Source != "amdgpu" || a.ID != 1 || len(a.Lines) != 11 || a.Addresses[0] != "0000:03:00.0" {
		t.Errorf("%+v", a)
	}
}

func TestScanRepeats(t *testing.T) {
	t.Parallel()
	r := ScanText(testdata(t, "amd__dmesg_sample_with_collapsing.log"), Mark{}, host)
	if r.Errors != 12 || r.Warnings != 11 || len(r.Records) != 0 {
		t.Errorf("%d errors, %d warnings: %q", r.Errors, r.Warnings, summary(r))
	}
	line := "[Wed Jan  7 10:00:1%d 2026] amdgpu: GPU reset begin!\n"
	r = ScanText(strings.ReplaceAll(line, "%d", "0")+strings.ReplaceAll(line, "%d", "1"), Mark{}, host)
	if r.Errors != 1 || len(r.Events) != 1 || r.Events[0].Count != 2 {
		t.Errorf("equal messages: %+v", r.Events)
	}
}

func TestScanFatal(t *testing.T) {
	t.Parallel()
	m := Mark{Clock: HostClock{Now: at(10, 30, 0)}}
	r := ScanText(testdata(t, "constructed_mi300x_fatal.log"), m, host)
	if len(r.Events) != 0 || len(r.Records) != 2 || r.Errors != 1 || r.Warnings != 1 || r.InWindow != 7 || r.By != "time" {
		t.Fatalf("%+v", r)
	}
	f := r.Records[0]
	if f.ID != 1 || f.Severity != Error || !strings.Contains(f.Head, "ERREVENT_ATHUB_INTERRUPT") || len(f.Lines) != 5 || !f.Time.Equal(at(11, 0, 0).Add(100*time.Millisecond)) {
		t.Errorf("%+v", f)
	}
	if diff := cmp.Diff([]string{"0000:0c:00.0", "0000:15:00.0", "0000:22:00.0"}, f.Addresses); diff != "" {
		t.Error(diff)
	}
	if c := r.Records[1]; c.ID != 2 || c.Severity != Warning {
		t.Errorf("%+v", c)
	}
	if whole := ScanText(testdata(t, "constructed_mi300x_fatal.log"), Mark{}, host); whole.Errors != 1 || len(whole.Events) != 0 {
		t.Errorf("benign lines are reported: %q", summary(whole))
	}
	corrected := `[ 10.5] {1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5
[ 10.6] {1}[Hardware Error]: event severity: corrected
[ 10.7] {1}[Hardware Error]:  Error 0, type: corrected
[ 10.8] {1}[Hardware Error]:   section_type: PCIe error
`
	if r := ScanText(corrected, Mark{}, host); r.Errors != 0 || r.Warnings != 1 || !r.Pass || len(r.Events) != 0 {
		t.Errorf("a corrected error: %+v", r)
	}
	twice := "[ 10.5] amdgpu 0000:0c:00.0: {3}2 uncorrectable hardware errors detected in gfx block\n[ 10.6] amdgpu 0000:0c:00.0: {3}1 correctable hardware errors detected in total in gfx block\n"
	if r := ScanText(twice, Mark{}, host); r.Errors != 1 || r.Warnings != 0 {
		t.Errorf("the worst headline: %+v", r.Records)
	}
	if r := ScanText(twice+"[ 9000.0] amdgpu 0000:0c:00.0: {3}2 uncorrectable hardware errors detected in gfx block\n", Mark{}, host); len(r.Records) != 2 {
		t.Errorf("the same id hours later: %+v", r.Records)
	}
}

// One line of every group of the specification, and lines that only look like it.
func TestClassify(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"amdgpu: GPU reset begin!": "gpu_reset error", "GPU hang detected": "gpu_reset error", "The CP might be in an unrecoverable state": "gpu_reset error",
		"fence wait loop timeout expired": "gpu_reset error", "amdgpu: GPU reset(2) failed": "gpu_reset error", "Mode2 reset failed": "gpu_reset error",
		"python3 crashed": "crash error", "------------[ cut here ]------------": "crash error", "BUG: unable to handle": "crash error", "Call Trace:": "crash error",
		"RIP: 0010:amdgpu": "crash error", "---[ end trace 0 ]---": "crash error", "python[1]: segfault at 0": "crash error", "a fault occurred": "crash error",
		"traps: general protection fault ip:0": "crash error", "amdgpu: Fatal error during GPU init": "driver error", "Test failure": "test_fail error",
		"amdgpu: [gfxhub0] no-retry page fault (src_id:0)": "fault error", "Illegal register access in command stream": "fault error", "VM_L2_PROTECTION_FAULT_STATUS:0x0": "fault error",
		"Queue preemption failed for queue 1": "driver error", "Failed to evict process queues": "driver error", "No more SDMA queue to allocate": "driver error", "amdgpu: process pid 5": "driver error",
		"[amdgpu]] *ERROR* hw_init of IP block <gfx> failed -110": "driver error", "mce: [Hardware Error]: Machine check": "hardware error", "hardware failure": "hardware error",
		"RAS ERROR in block": "hardware error", "EDAC: 1 UE uncorrectable": "hardware error", "Correctable error": "hardware error",
		"ens1: NIC Link is Down": "network error", "bnxt_en: link is down": "network error", "ib_uverbs failed": "network error", "bad CQE in queue": "network error", "mlx5: CQ error on CQN": "network error",
		"amdgpu: Runlist is getting oversubscribed": "performance warning", "Expect reduced ROCm performance": "performance warning",
		"oom_kill_process+0x1": "memory error", "Out of memory: Killed process 1": "memory error", "Kernel panic - not syncing": "panic error", "sq_intr: error": "sq_interrupt error",
		"sched: RT throttling activated": "scheduler error", "rcu: rcu_preempt detected stalls on CPUs": "scheduler error",
		"pcieport 0000:00:01.1: AER: aer_status: 0x1": "pcie error", "aer_cor_status: 0x1, aer_cor_mask: 0x0": "pcie error", "pcieport 0000:00:01.1: pciehp: Slot(5): Link Down": "pcie error",
		"amdgpu 0000:03:00.0: 3 correctable hardware errors detected in total in umc block": "ras warning", "2 uncorrectable hardware errors detected in umc block": "ras error",
		"2 deferred hardware errors detected in umc block": "ras error", "mce: [Hardware Error]: Corrected error, no action required.": "ras warning", "pcieport: EDR: EDR event received": "ras error",
		"[Hardware Error]: CPU:1 MC14_STATUS[Over|UC|MiscV]: 0x0": "mce error", "[Hardware Error]: CPU:1 MC14_STATUS[Over|CE|MiscV]: 0x0": "mce warning",
		"ACPI BIOS Error (bug): x": "acpi error", "ACPI Error: x": "acpi warning", "EXT4-fs error (device sda1): x": "storage error", "Buffer I/O error on dev sda": "storage error",
		"amdgpu 0000:03:00.0: amdgpu: WARN: GPU is throttled": "throttle warning", "x86/cpu: SGX disabled by BIOS": "bios warning", "LNetError: 1:0:(x) ko2iblnd: No matching interfaces": "network warning",
		"amdgpu: MEM ECC is active.": "", "SRAM ECC is not presented.": "", "RAS: Correctable Errors collector initialized.": "", "audit: apparmor=\"DENIED\" operation=\"fault x\"": "",
		"pcieport 0000:00:01.1: AER: enabled with IRQ 30": "", "using the default scheduler": "", "debug: on": "", "description: none": "", "amdgpu: ring gfx uses VM inv eng 0": "", "amdgpu 0000:03:00.0: [drm] Display Core": "",
	} {
		group, severity, ok := classify(kline{msg: line})
		got := strings.TrimSpace(group + " " + string(severity))
		if got != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
	for _, tt := range []struct {
		facility, level, want string
		s                     Severity
	}{{"kern", "err", "kernel_err", Warning}, {"kern", "crit", "kernel_crit", Error}, {"kern", "emerg", "kernel_emerg", Error}, {"kern", "warn", "", ""}, {"user", "err", "", ""}, {"", "", "", ""}} {
		if group, s, _ := classify(kline{facility: tt.facility, level: tt.level, msg: "odd"}); group != tt.want || s != tt.s {
			t.Errorf("%+v: %s %s", tt, group, s)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	const log = `[Wed Jan  7 10:00:00 2026] GPU hang before
[Wed Jan  7 11:00:00 2026] last line before
  GPU hang in a line without a stamp
[Wed Jan  7 11:59:59 2026] GPU hang within
[Wed Jan  7 13:00:00 2026] GPU hang behind
`
	for _, tt := range []struct {
		name string
		m    Mark
		by   string
		want []string
	}{
		{"by time", Mark{Clock: HostClock{Now: at(11, 30, 0)}}, "time", []string{"GPU hang within"}},
		{"slack", Mark{Clock: HostClock{Now: at(12, 0, 0)}}, "time", []string{"GPU hang within"}},
		{"by position", Mark{Clock: HostClock{Now: at(11, 59, 0)}, Last: "[Wed Jan  7 11:00:00 2026] last line before"}, "position", []string{"  GPU hang in a line without a stamp", "GPU hang within", "GPU hang behind"}},
		{"marker gone", Mark{Clock: HostClock{Now: at(11, 30, 0)}, Last: "[Wed Jan  7 09:00:00 2026] wrapped away"}, "time", []string{"GPU hang within"}},
	} {
		r := ScanText(log, tt.m, host)
		var got []string
		for _, e := range r.Events {
			got = append(got, e.msg)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || r.By != tt.by || r.NoTime != 1 {
			t.Errorf("%s: %s%+v", tt.name, diff, r)
		}
	}
}

func TestScanIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range maxEvents + 20 {
		b.WriteString("GPU hang " + strings.Repeat("x", i+1000) + "\n")
	}
	r := ScanText(b.String(), Mark{}, host)
	if len(r.Events) != maxEvents || r.Dropped != 20 || r.Errors != maxEvents+20 || len(r.Events[499].Line) > maxLine+3 {
		t.Errorf("%d events, %d dropped, %d errors", len(r.Events), r.Dropped, r.Errors)
	}
}

const clockOut = "1767808800.5 -0600\n10800 1\n"

func TestScanLog(t *testing.T) {
	t.Parallel()
	bad := "kern  :err   : 2026-01-07T11:59:00,000000-06:00 amdgpu: GPU reset begin!\n"
	for _, tt := range []struct {
		name   string
		r      scripted
		status artifact.Status
		source string
		errors int
		reason string
		notes  int
	}{
		{"dmesg", scripted{{part: "date", out: clockOut}, {part: "sudo -n dmesg --time-format iso -x", out: bad}}, artifact.Done, "dmesg", 1, "", 0},
		{"clean", scripted{{part: "date", out: clockOut}, {part: "dmesg", out: "[ 1.5] hello\n"}}, artifact.Done, "dmesg", 0, "", 0},
		{"empty", scripted{{part: "date", out: clockOut}, {part: "dmesg"}}, artifact.Done, "dmesg", 0, "", 1},
		{"journal", scripted{{part: "date", out: clockOut}, {part: "dmesg", code: 1, stderr: "dmesg: Operation not permitted"},
			{part: "journalctl -k -q --no-pager -o short-iso --since @1767803398", out: "2026-01-07T11:59:00-0600 n kernel: GPU hang\n"}}, artifact.Done, "journalctl", 1, "", 1},
		{"neither", scripted{{part: "date", out: clockOut}, {part: "dmesg", code: 1, stderr: "not permitted"}, {part: "journalctl", code: 1, stderr: "no journal"}},
			artifact.Failed, "", 0, "no journal", 1},
		{"no clock", scripted{{part: "date", out: "?"}}, artifact.Failed, "", 0, "clock", 0},
		{"lost", scripted{{part: "date", err: errors.New("connection lost")}}, artifact.Failed, "", 0, "connection lost", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, raw := ScanLog(t.Context(), tt.r, "node7", true, Mark{Clock: HostClock{Now: at(10, 30, 0)}}, ticking())
			if res.Status != tt.status || res.Source != tt.source || res.Errors != tt.errors || !strings.Contains(res.Reason, tt.reason) || len(res.Notes) != tt.notes || res.Host != "node7" {
				t.Errorf("%+v", res)
			}
			if res.Pass != (tt.status == artifact.Done && tt.errors == 0) || tt.errors > 0 && len(raw) == 0 || res.EndedAt.Before(res.StartedAt) {
				t.Errorf("pass %v, %d bytes: %+v", res.Pass, len(raw), res.Header)
			}
		})
	}
}

func TestMarkLog(t *testing.T) {
	t.Parallel()
	m, err := MarkLog(t.Context(), scripted{{part: "date", out: clockOut}, {part: "dmesg", out: "a\nb\n\n"}}, false)
	if err != nil || m.Last != "b" || m.Clock.Now.IsZero() {
		t.Errorf("%+v %v", m, err)
	}
	if m, err = MarkLog(t.Context(), scripted{{part: "date", out: clockOut}, {part: "dmesg", code: 1}}, false); err != nil || m.Last != "" {
		t.Errorf("not allowed: %+v %v", m, err)
	}
	if _, err = MarkLog(t.Context(), scripted{{part: "date", err: errors.New("lost")}}, false); err == nil {
		t.Error("a lost host was marked")
	}
}

func FuzzScanText(f *testing.F) {
	f.Add("kern  :err   : 2026-01-07T10:03:00,456789-06:00 {1}[Hardware Error]: Hardware error\n")
	f.Add("[Wed Jan  7 10:00:10 2026] x\n[ 1.5] {1}uncorrectable hardware error(X) detected!\nDec 31 10:00:10 n kernel: [ 5.5] GPU hang")
	f.Add("[999999999999.9] x\n\xff\x00")
	f.Fuzz(func(t *testing.T, s string) {
		r := ScanText(s, Mark{Clock: HostClock{Now: at(10, 0, 0)}}, host)
		if r.InWindow > r.Lines || len(r.Events)+len(r.Records) > r.Errors+r.Warnings || r.Pass != (r.Errors == 0) {
			t.Errorf("%+v", r)
		}
	})
}
