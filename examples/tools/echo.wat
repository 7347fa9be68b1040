;; A tool that gives back what it is given: the smallest there can be, for tests and benchmarks.
;; The world is that of crates/sandbox/wit/tool.wit, spelled out in the component text format.
(component
  (import "frith:tool/events@1.0.0" (instance $events
    (export "status" (func (param "message" string)))))

  ;; The memory comes first, since strings for imports are taken from it.
  (core module $Memory
    (memory (export "memory") 1)
    (global $free (mut i32) (i32.const 4096))
    ;; Gives out memory and takes nothing back: an instance serves one call.
    (func (export "realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at
        (i32.and
          (i32.add (global.get $free) (i32.sub (local.get $align) (i32.const 1)))
          (i32.sub (i32.const 0) (local.get $align))))
      (global.set $free (i32.add (local.get $at) (local.get $size)))
      (block $fits
        (loop $grow
          (br_if $fits
            (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
          (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
          (unreachable)))
      (local.get $at)))
  (core instance $memory (instantiate $Memory))
  (core func $status
    (canon lower (func $events "status") (memory (core memory $memory "memory"))))

  (core module $Tool
    (import "host" "memory" (memory 1))
    (import "host" "status" (func $status (param i32 i32)))
    ;; The definition: addresses and lengths of its texts, then two booleans.
    (data (i32.const 0x10) "\00\01\00\00\1b\00\00\00\80\01\00\00\11\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\60\00\00\00\01\00\00\00\e0\01\00\00\05\00\00\00\01\01")
    (data (i32.const 0x60) "\c0\01\00\00\04\00\00\00")
    (data (i32.const 0x100) "Gives back what it is given")
    (data (i32.const 0x180) "{\"type\":\"object\"}")
    (data (i32.const 0x1c0) "echo")
    (data (i32.const 0x1e0) "1.0.0")
    (data (i32.const 0x200) "echoing")
    (func (export "describe") (result i32) (i32.const 0x10))
    ;; What a call gives: 0 and JSON, or 1 and what went wrong.
    (func $answer (param $is-wrong i32) (param $at i32) (param $size i32) (result i32)
      (i32.store (i32.const 0x70) (local.get $is-wrong))
      (i32.store (i32.const 0x74) (local.get $at))
      (i32.store (i32.const 0x78) (local.get $size))
      (i32.const 0x70))
    (func (export "call") (param $at i32) (param $size i32) (result i32)
      ;; begin
      (call $status (i32.const 0x200) (i32.const 7))
      (call $answer (i32.const 0) (local.get $at) (local.get $size))
      ;; end
    ))
  (core instance $tool (instantiate $Tool (with "host" (instance
    (export "memory" (memory $memory "memory"))
    (export "status" (func $status))))))

  (type $record (record
    (field "description" string)
    (field "input-schema" string)
    (field "output-schema" (option string))
    (field "tags" (list string))
    (field "version" string)
    (field "read-only" bool)
    (field "idempotent" bool)))
  (import "definition" (type $definition (eq $record)))
  (func (export "describe") (result $definition)
    (canon lift (core func $tool "describe") (memory (core memory $memory "memory"))))
  (func (export "call") (param "arguments" string) (result (result string (error string)))
    (canon lift (core func $tool "call")
      (memory (core memory $memory "memory"))
      (realloc (core func $memory "realloc")))))
