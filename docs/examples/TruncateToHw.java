import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import jdk.internal.org.objectweb.asm.ClassReader;
import jdk.internal.org.objectweb.asm.ClassVisitor;
import jdk.internal.org.objectweb.asm.ClassWriter;
import jdk.internal.org.objectweb.asm.MethodVisitor;
import jdk.internal.org.objectweb.asm.Opcodes;
import jdk.internal.org.objectweb.asm.Type;

/**
 * Breaks the jar of a Kafka broker: a follower truncates to its high watermark again, as before KIP-101. For Java 17:
 *
 *   java --add-exports java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED TruncateToHw.java kafka_2.13-4.1.0.jar patched.jar
 *
 * Two methods get other bodies. In the source of Kafka they would be
 *
 *   ReplicaFetcherThread:  override def latestEpoch(tp: TopicPartition) = Optional.empty[Integer]   // in 3.x: None
 *   ReplicaManager:        protected def initialFetchOffset(log: UnifiedLog): Long = log.highWatermark
 */
public final class TruncateToHw extends ClassVisitor {
    private static final String FETCHER = "kafka/server/ReplicaFetcherThread", MANAGER = "kafka/server/ReplicaManager";
    private static final Set<String> LEFT = new HashSet<>(Set.of("latestEpoch", "initialFetchOffset"));

    private TruncateToHw(ClassWriter to) {
        super(Opcodes.ASM8, to);
    }

    @Override
    public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
        MethodVisitor method = super.visitMethod(access, name, descriptor, signature, exceptions);
        if ((access & Opcodes.ACC_SYNTHETIC) != 0 || !LEFT.remove(name)) {
            return method;
        }
        method.visitCode();
        if (name.equals("latestEpoch")) {
            putNone(method, Type.getReturnType(descriptor).getInternalName());
            method.visitInsn(Opcodes.ARETURN);
        } else {
            String log = Type.getArgumentTypes(descriptor)[0].getInternalName();
            method.visitVarInsn(Opcodes.ALOAD, 1);
            method.visitMethodInsn(Opcodes.INVOKEVIRTUAL, log, "highWatermark", "()J", false);
            method.visitInsn(Opcodes.LRETURN);
        }
        method.visitMaxs(2, 2);
        method.visitEnd();
        return null; // the old body is skipped
    }

    /** Scala's None or Java's Optional.empty(), as the method returns one or the other. */
    private static void putNone(MethodVisitor method, String option) {
        if (option.equals("scala/Option")) {
            method.visitFieldInsn(Opcodes.GETSTATIC, "scala/None$", "MODULE$", "Lscala/None$;");
        } else {
            method.visitMethodInsn(Opcodes.INVOKESTATIC, option, "empty", "()L" + option + ";", false);
        }
    }

    private static byte[] patched(byte[] source) {
        ClassWriter writer = new ClassWriter(0);
        new ClassReader(source).accept(new TruncateToHw(writer), 0);
        return writer.toByteArray();
    }

    public static void main(String[] names) throws IOException {
        try (JarFile from = new JarFile(names[0]); JarOutputStream to = new JarOutputStream(Files.newOutputStream(Path.of(names[1])))) {
            for (JarEntry entry : (Iterable<JarEntry>) from.stream()::iterator) {
                byte[] content = from.getInputStream(entry).readAllBytes();
                String type = entry.getName().replace(".class", "");
                to.putNextEntry(new JarEntry(entry.getName()));
                to.write(type.equals(FETCHER) || type.equals(MANAGER) ? patched(content) : content);
            }
        }
        if (!LEFT.isEmpty()) {
            throw new IOException(names[0] + " has no method " + LEFT);
        }
    }
}
