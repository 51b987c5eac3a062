package check

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A HostClock is what one host's clocks said at one moment. Kernel logs are
// compared with the clock of the machine that wrote them, never with ours.
type HostClock struct {
	Now  time.Time // in the host's own zone
	Boot time.Time // when the host was started; zero if not known
}

// ClockArgs prints seconds since 1970, the zone's offset and the seconds since the
// start of the machine.
func ClockArgs() []string {
	return []string{"sh", "-c", `date "+%s.%N %z"; cat /proc/uptime 2>/dev/null || :`}
}

// ParseClock reads the output of [ClockArgs].
func ParseClock(out string) (HostClock, error) {
	f := strings.Fields(out)
	var c HostClock
	if len(f) < 2 {
		_, err := parseStamp(out)
		return c, err
	}
	s, err := parseStamp(f[0])
	if err != nil {
		return c, err
	}
	zone, err := time.Parse("-0700", f[1])
	if err != nil {
		return c, err
	}
	c.Now = seconds(s).In(zone.Location())
	if len(f) > 2 {
		if up, err := strconv.ParseFloat(f[2], 64); err == nil && up > 0 {
			c.Boot = c.Now.Add(-time.Duration(up * float64(time.Second)))
		}
	}
	return c, nil
}

// seconds converts seconds since 1970, to the microsecond.
func seconds(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }

// A kline is one line of a kernel log.
type kline struct {
	raw      string
	facility string // kern, user, …; "" if the form does not say
	level    string // emerg … debug; "" if the form does not say
	time     time.Time
	msg      string
}

var (
	levelPrefix = regexp.MustCompile(`^([a-z0-9]+) *:(emerg|alert|crit|err|warn|notice|info|debug) *: *(.*)$`)
	isoStamp    = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?(Z|[+-]\d{2}:?\d{2}) +(.*)$`)
	bootStamp   = regexp.MustCompile(`^\[ *(\d{1,12}\.\d{1,9})\] ?(.*)$`)
	ctimeStamp  = regexp.MustCompile(`^\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4})\] ?(.*)$`)
	shortStamp  = regexp.MustCompile(`^([A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2}) +(.*)$`)
	// syslogTag is the host and program that syslog and the journal put before the
	// kernel's own text.
	syslogTag = regexp.MustCompile(`^\S+ (?:kernel|[\w.\-/]+(?:\[\d+\])?): ?(.*)$`)
)

// parseLine reads one line in any of the forms kernel logs come in: seconds since
// boot, dmesg -T, RFC 3339 of syslog, the journal's short form without a year, and
// dmesg --time-format iso, with or without facility and level in front. A line
// without a stamp keeps a zero time.
func parseLine(raw string, c HostClock) kline {
	k := kline{raw: raw, msg: raw}
	if m := levelPrefix.FindStringSubmatch(raw); m != nil {
		k.facility, k.level, k.msg = m[1], m[2], m[3]
	}
	zone := c.Now.Location()
	switch {
	case bootStamp.MatchString(k.msg):
		m := bootStamp.FindStringSubmatch(k.msg)
		k.msg = m[2]
		if s, err := strconv.ParseFloat(m[1], 64); err == nil && !c.Boot.IsZero() && s < 1e9 {
			k.time = c.Boot.Add(time.Duration(s * float64(time.Second)))
		}
	case ctimeStamp.MatchString(k.msg):
		m := ctimeStamp.FindStringSubmatch(k.msg)
		if t, err := time.ParseInLocation(time.ANSIC, m[1], zone); err == nil {
			k.time, k.msg = t, m[2]
		}
	case isoStamp.MatchString(k.msg):
		m := isoStamp.FindStringSubmatch(k.msg)
		if t, err := parseISO(m[1], m[2], m[3]); err == nil {
			k.time, k.msg = t, untag(m[4])
		}
	case shortStamp.MatchString(k.msg):
		m := shortStamp.FindStringSubmatch(k.msg)
		if t, err := time.ParseInLocation("2006 Jan _2 15:04:05", strconv.Itoa(c.Now.Year())+" "+m[1], zone); err == nil {
			if t.After(c.Now.Add(24 * time.Hour)) { // of last December, read in January
				t = t.AddDate(-1, 0, 0)
			}
			k.time, k.msg = t, untag(m[2])
		}
	}
	return k
}

func parseISO(date, fraction, zone string) (time.Time, error) {
	layout, text := "2006-01-02T15:04:05", date
	if fraction != "" {
		layout, text = layout+".999999999", text+"."+fraction
	}
	switch {
	case zone == "Z":
	case strings.Contains(zone, ":"):
		layout, text = layout+"-07:00", text+zone
	default:
		layout, text = layout+"-0700", text+zone
	}
	return time.Parse(layout, text)
}

// untag removes "host kernel: " and, behind it, the boot seconds that syslog
// repeats.
func untag(msg string) string {
	m := syslogTag.FindStringSubmatch(msg)
	if m == nil || !strings.Contains(msg[:len(msg)-len(m[1])], " kernel:") {
		return msg
	}
	if b := bootStamp.FindStringSubmatch(m[1]); b != nil {
		return b[2]
	}
	return m[1]
}
