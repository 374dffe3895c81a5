package rlock.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SingleServerConfig;

/** Creates clients with the settings of the test. They are small enough for twenty in a JVM. */
final class Settings {

    private Settings() {
    }

    static RedissonClient connect(Request request) throws Exception {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setThreads(4);
        config.setNettyThreads(2);
        Object servers = servers(config, request.texts("addresses"));
        for (Map.Entry<String, JsonNode> setting : request.json().path("settings").properties()) {
            set(setting.getKey(), setting.getValue(), config, servers);
        }
        return Redisson.create(config);
    }

    private static Object servers(Config config, List<String> addresses) {
        if (addresses.size() == 1) {
            SingleServerConfig single = config.useSingleServer();
            single.setAddress("redis://" + addresses.get(0));
            single.setConnectionMinimumIdleSize(1).setConnectionPoolSize(16);
            return single.setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(8);
        }
        ClusterServersConfig cluster = config.useClusterServers();
        addresses.forEach(address -> cluster.addNodeAddress("redis://" + address));
        cluster.setScanInterval(1000);
        cluster.setReadMode(ReadMode.MASTER); // the loops must read their counters from the master
        cluster.setMasterConnectionMinimumIdleSize(1).setMasterConnectionPoolSize(16);
        cluster.setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(16);
        return cluster.setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(8);
    }

    /** Sets by name, because versions of Redisson differ in their settings and in where those are. */
    private static void set(String name, JsonNode value, Object... places) throws Exception {
        String setter = "set" + name.substring(0, 1).toUpperCase() + name.substring(1);
        for (Object place : places) {
            for (Method method : place.getClass().getMethods()) {
                if (method.getName().equals(setter) && method.getParameterCount() == 1 && !method.isBridge()) {
                    invoke(method, place, convert(value, method.getParameterTypes()[0]));
                    return;
                }
            }
        }
        throw new NoSuchMethodException("Redisson " + Clients.version() + " has no setting " + name);
    }

    private static void invoke(Method method, Object place, Object value) throws Exception {
        try {
            method.invoke(place, value);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object convert(JsonNode value, Class<?> type) {
        if (type.getSimpleName().equals("NameMapper")) {
            return prefix(value.asText(), type);
        }
        if (type.isEnum()) {
            return Enum.valueOf((Class) type, value.asText());
        }
        if (type == int.class) {
            return value.asInt();
        }
        if (type == long.class) {
            return value.asLong();
        }
        if (type == boolean.class) {
            return value.asBoolean();
        }
        return value.asText();
    }

    /** Makes a NameMapper, whose package differs between versions, that puts a prefix before each name. */
    private static Object prefix(String prefix, Class<?> type) {
        InvocationHandler handler = (proxy, method, args) -> switch (method.getName()) {
            case "map" -> prefix + args[0];
            case "unmap" -> ((String) args[0]).substring(prefix.length());
            default -> throw new UnsupportedOperationException(method.getName());
        };
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler);
    }
}
