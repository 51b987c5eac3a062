package strictjson

// A Space is room for the values of one document after another: parsing the next
// one overwrites those of the one before. It saves most of the work of a reader
// of many small files. The zero value is ready; one parser uses it at a time.
type Space struct {
	values  []Value
	members []Member
	seen    map[string]int
}

// maxKept is how many values, or members, a space keeps room for: one large
// document must not hold its memory for ever.
const maxKept = 1024

// room is where the values of the next document go; nil if it must be made.
func (s *Space) room() []Value {
	if s == nil {
		return nil
	}
	return s.values
}

// leave makes room for as many values as there were, for the next document.
func (p *parser) leave() {
	if s := p.o.Space; s != nil && p.made > len(s.values) && len(s.values) < maxKept {
		s.values = make([]Value, min(p.made+p.made/4, maxKept))
	}
}

// members is room for those of an object, which has the text from here on.
func (p *parser) members(depth int) []Member {
	switch s := p.o.Space; {
	case depth > 0:
		return nil
	case s == nil:
		return make([]Member, 0, p.likely())
	default:
		return s.members[:0]
	}
}

// names is an empty index of the names of an object.
func (p *parser) names(depth int) map[string]int {
	s := p.o.Space
	if s == nil || depth > 0 {
		return make(map[string]int, p.likely())
	}
	if s.seen == nil || len(s.seen) > maxKept {
		s.seen = make(map[string]int, p.likely())
	}
	clear(s.seen)
	return s.seen
}
