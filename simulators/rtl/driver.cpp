// The clock loop around the chip, as a shared library: one call runs a whole program.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "verilated.h"

// PRESIL_BENCH is the module that is built: the chip of a family, and its memory.
#define PRESIL_JOIN_(a, b) a##b
#define PRESIL_JOIN(a, b) PRESIL_JOIN_(a, b)
#define PRESIL_TEXT_(a) #a
#define PRESIL_TEXT(a) PRESIL_TEXT_(a)
#define PRESIL_TOP PRESIL_JOIN(V, PRESIL_BENCH)
#include PRESIL_TEXT(PRESIL_TOP.h)
#include PRESIL_TEXT(PRESIL_JOIN(PRESIL_TOP, ___024root).h)
#if defined(PRESIL_FST)
#include "verilated_fst_c.h"
using Trace = VerilatedFstC;
#elif defined(PRESIL_VCD)
#include "verilated_vcd_c.h"
using Trace = VerilatedVcdC;
#endif

// Verilator asks for it where $time is used; nothing here does.
double sc_time_stamp() { return 0; }

namespace {

enum Ending : int { kRunning = 0, kDone = 1, kError = 2 };

struct Bench {
  VerilatedContext context;
  std::unique_ptr<PRESIL_TOP> top;
#if defined(PRESIL_FST) || defined(PRESIL_VCD)
  std::unique_ptr<Trace> trace;
#endif

  void step() {
    top->clk_i = 1;
    top->eval();
    dump();
    top->clk_i = 0;
    top->eval();
    dump();
  }

  void dump() {
    context.timeInc(1);
#if defined(PRESIL_FST) || defined(PRESIL_VCD)
    if (trace) trace->dump(context.time());
#endif
  }
};

}  // namespace

extern "C" {

// A chip in reset, its memories full of noise drawn from `seed`. `waves` may be null.
void* presil_new(uint32_t seed, const char* waves) {
  auto* bench = new Bench;
  bench->context.randReset(2);
  bench->context.randSeed(static_cast<int>(seed % 0x7ffffffeu + 1));
#if defined(PRESIL_FST) || defined(PRESIL_VCD)
  bench->context.traceEverOn(true);
#endif
  bench->top = std::make_unique<PRESIL_TOP>(&bench->context);
#if defined(PRESIL_FST) || defined(PRESIL_VCD)
  if (waves) {
    bench->trace = std::make_unique<Trace>();
    bench->top->trace(bench->trace.get(), 99);
    bench->trace->open(waves);
  }
#else
  (void)waves;
#endif
  auto& top = *bench->top;
  top.clk_i = 0;
  top.rst_ni = 0;
  top.start_i = 0;
  top.word_write_i = 0;
  top.semaphore_write_i = 0;
  top.enable_i = 0;
  for (int i = 0; i < 2; i++) bench->step();
  top.rst_ni = 1;
  return bench;
}

void presil_delete(void* handle) {
  auto* bench = static_cast<Bench*>(handle);
#if defined(PRESIL_FST) || defined(PRESIL_VCD)
  if (bench->trace) bench->trace->close();
#endif
  bench->top->final();
  delete bench;
}

void presil_word(void* handle, uint32_t stream, uint32_t pc, const uint32_t* bits) {
  auto* bench = static_cast<Bench*>(handle);
  auto& top = *bench->top;
  top.word_write_i = 1;
  top.word_stream_i = stream;
  top.word_pc_i = pc;
  std::memcpy(top.word_i.data(), bits, sizeof(top.word_i));
  bench->step();
  top.word_write_i = 0;
}

void presil_semaphore(void* handle, uint32_t semaphore, uint32_t amount) {
  auto* bench = static_cast<Bench*>(handle);
  auto& top = *bench->top;
  top.semaphore_write_i = 1;
  top.semaphore_i = semaphore;
  top.semaphore_amount_i = amount;
  bench->step();
  top.semaphore_write_i = 0;
}

void presil_write(void* handle, uint32_t address, const uint8_t* bytes, uint32_t count) {
  auto& cells = static_cast<Bench*>(handle)->top->rootp->PRESIL_JOIN(PRESIL_BENCH, __DOT__i_dram__DOT__cells);
  for (uint32_t i = 0; i < count; i++) cells[address + i] = bytes[i];
}

void presil_read(void* handle, uint32_t address, uint8_t* bytes, uint32_t count) {
  auto& cells = static_cast<Bench*>(handle)->top->rootp->PRESIL_JOIN(PRESIL_BENCH, __DOT__i_dram__DOT__cells);
  for (uint32_t i = 0; i < count; i++) bytes[i] = cells[address + i];
}

// Runs the streams in `enable` for at most `cycles` more cycles; `start` begins the program.
int presil_run(void* handle, uint32_t enable, int start, uint64_t cycles) {
  auto* bench = static_cast<Bench*>(handle);
  auto& top = *bench->top;
  top.enable_i = enable;
  if (start) {
    top.start_i = 1;
    bench->step();
    top.start_i = 0;
  }
  for (uint64_t i = 0; i < cycles; i++) {
    bench->step();
    if (top.error_o) return kError;
    if (top.done_o) return kDone;
  }
  return kRunning;
}

// cycles, touched bytes, error, its stream, its pc; then busy cycles of each engine; then what each stream issued.
void presil_counters(void* handle, uint64_t* out, uint32_t engines, uint32_t streams) {
  auto& top = *static_cast<Bench*>(handle)->top;
  *out++ = top.cycles_o;
  *out++ = top.touched_bytes_o;
  *out++ = top.error_o;
  *out++ = top.error_stream_o;
  *out++ = top.error_pc_o;
  std::memcpy(out, top.busy_cycles_o.data(), sizeof(uint64_t) * engines);
  std::memcpy(out + engines, top.issued_o.data(), sizeof(uint64_t) * streams);
}

}  // extern "C"
