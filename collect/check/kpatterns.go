package check

import "regexp"

// A Severity says what an event means for a verdict: errors fail, warnings warn.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// A pattern is one kind of event in a kernel log.
type pattern struct {
	group    string
	severity Severity
	re       *regexp.Regexp
}

func pat(group string, s Severity, re string) pattern {
	return pattern{group, s, regexp.MustCompile(re)}
}

// benign are lines that look like events and are none: what drivers say about
// themselves at start, and the audit lines of AppArmor.
var benign = []*regexp.Regexp{
	regexp.MustCompile(`(?:MEM|SRAM) ECC is (?:active|not presented)`),
	regexp.MustCompile(`RAS: Correctable Errors collector initialized`),
	regexp.MustCompile(`\b(?:ALLOWED|DENIED)\b`),
	regexp.MustCompile(`\bAER: enabled\b`),
	regexp.MustCompile(`Error Record Serialization Table|HEST: |ERST: `),
}

// patterns are tried in order, the first that matches names the event. First
// those with a meaning of their own, warnings among them (condensed from the table
// of AMD's node-scraper), then the groups of the existing suite, which are wider.
// Words of the latter that occur inside others are bounded: "fault " is part of
// "default ", "Bug:" of "debug:", "RIP:" of "description:".
var patterns = []pattern{
	pat("memory", Error, `oom_kill_process|Out of memory`),
	pat("io_page_fault", Error, `IO_PAGE_FAULT`),
	pat("panic", Error, `(?i)\bkernel panic\b`),
	pat("sq_interrupt", Error, `sq_intr`),
	pat("ras", Error, `sram_ecc|GPU detected ECC Fatal Error|poison is consumed by client|Poison is created|Saved bad pages \d+ reaches threshold|EDR: EDR event received|\bDPC: `),
	pat("driver", Error, `\*ERROR\* [hs]w_init of IP block|Failed to disallow cf state|Failed to terminate tmr|suspend of IP block <\w+> failed|Fatal error during GPU init|qcm fence wait loop timeout`),
	pat("scheduler", Error, `RT throttling activated|rcu_preempt (?:detected stalls|self-detected stall)`),
	pat("crash", Error, `general protection fault|(?i:segfault|segmentation fault)`),
	pat("fault", Error, `page fault for address|(?:no-)?retry page fault|\] page fault\b`),
	pat("pcie", Error, `aer_(?:uncor_)?status: 0x|aer_uncor_severity: |Slot\(\d+\): (?:Card not present|Link Down)|common clock configuration is inconsistent`),
	pat("pcie", Error, `aer_cor_status: 0x`),
	pat("journal", Warning, `Failed to read journal file|journal corrupted or uncleanly shut down`),
	pat("acpi", Error, `ACPI BIOS Error`),
	pat("acpi", Warning, `ACPI Error`),
	pat("storage", Error, `EXT4-fs error \(device |Buffer I/O error on dev`),
	pat("ras", Error, `\b(?:uncorrectable|deferred) hardware errors detected in`),
	pat("ras", Warning, `\bcorrectable hardware errors detected in`),
	pat("ras", Warning, `event severity: corrected|, type: corrected`),
	pat("ras", Warning, `\[Hardware Error\]: Corrected error`),
	pat("mce", Error, `MC\d+_STATUS\[[^\]]*\|UC\|`),
	pat("mce", Warning, `MC\d+_STATUS\[[^\]]*\|CE\|`),
	pat("gpu_reset", Error, `GPU reset(?:\(\d+\))? failed|Mode2 reset failed|Issuing Whole GPU reset`),
	pat("bios", Warning, `SGX disabled by BIOS|qat_4xxx_mmp\.bin`),
	pat("throttle", Warning, `GPU is throttled`),
	pat("network", Warning, `(?i)LNetError:.*(?:No matching interfaces|starting up LNI)|LustreError:.*network initiali[sz]ation failed`),
	pat("hardware", Error, `APEI Generic Hardware Error Source|\bError Address\b|Accelerator Check Architecture`),

	pat("gpu_reset", Error, `(?i)GPU reset begin|GPU hang|cp might be in an unrecoverable state|fence wait loop timeout expired`),
	pat("fault", Error, `(?i)no-retry page fault|Illegal register access|PROTECTION_FAULT_STATUS`),
	pat("driver", Error, `(?i)Queue preemption failed for queue|Failed to evict process queues|No more SDMA queue to allocate|amdgpu: process pid`),
	pat("hardware", Error, `(?i)hardware error|hardware fail|ras error|uncorrectable|correctable err`),
	pat("network", Error, `(?i)NIC Link is Down|link is down|ib_uverb|\bCQE\b|queue catastrophic|CQ error`),
	pat("test_fail", Error, `(?i)Test failure`),
	pat("crash", Error, `(?i)crashed|\bTraceback|cut here|\bBug:|Call Trace|\bRIP:|end trace|amdgpu: Fatal error|show_stack|dump_stack|\bfault `),
	pat("performance", Warning, `(?i)Runlist is getting oversubscribed|Expect reduced ROCm performance`),
}

// classify names the event of a line; ok is false for a line that is none. A line
// of the kernel's own at level err that nothing knows is a warning, as in
// node-scraper; one that is worse than err is an error.
func classify(k kline) (group string, s Severity, ok bool) {
	for _, re := range benign {
		if re.MatchString(k.msg) {
			return "", "", false
		}
	}
	for _, p := range patterns {
		if p.re.MatchString(k.msg) {
			return p.group, p.severity, true
		}
	}
	if k.facility == "kern" {
		switch k.level {
		case "emerg", "alert", "crit":
			return "kernel_" + k.level, Error, true
		case "err":
			return "kernel_err", Warning, true
		}
	}
	return "", "", false
}
