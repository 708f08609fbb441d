package tokenize

import (
	"encoding/binary"
	"fmt"
	"math"
)

// protoReader reads a protocol buffer message field by field: a varint with
// the field's number and wire type, then the value.
type protoReader struct {
	b   []byte
	pos int
}

// protoField is one field: a number for wire types 0, 1 and 5, bytes for type 2.
type protoField struct {
	number int
	wire   int
	value  uint64
	bytes  []byte
}

func (f protoField) float() float32 { return math.Float32frombits(uint32(f.value)) }

func (r *protoReader) varint() (uint64, error) {
	v, n := binary.Uvarint(r.b[r.pos:])
	if n <= 0 {
		return 0, fmt.Errorf("protobuf, byte %d: broken number", r.pos)
	}
	r.pos += n
	return v, nil
}

// fields calls f for every field of a message.
func (r *protoReader) fields(f func(protoField) error) error {
	for r.pos < len(r.b) {
		start := r.pos
		tag, err := r.varint()
		if err != nil {
			return err
		}
		field := protoField{number: int(tag >> 3), wire: int(tag & 7)}
		size := 0
		switch field.wire {
		case 0:
			if field.value, err = r.varint(); err != nil {
				return err
			}
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			n, err := r.varint()
			if err != nil {
				return err
			}
			if n > uint64(len(r.b)-r.pos) {
				return fmt.Errorf("protobuf, byte %d: field %d of %d bytes, but %d are left", start, field.number, n, len(r.b)-r.pos)
			}
			size = int(n)
		default:
			return fmt.Errorf("protobuf, byte %d: unknown wire type %d", start, field.wire)
		}
		if field.number == 0 {
			return fmt.Errorf("protobuf, byte %d: field number 0", start)
		}
		if size > len(r.b)-r.pos {
			return fmt.Errorf("protobuf, byte %d: field %d is cut off", start, field.number)
		}
		field.bytes = r.b[r.pos : r.pos+size]
		r.pos += size
		switch field.wire {
		case 1:
			field.value = binary.LittleEndian.Uint64(field.bytes)
		case 5:
			field.value = uint64(binary.LittleEndian.Uint32(field.bytes))
		}
		if err := f(field); err != nil {
			return err
		}
	}
	return nil
}
